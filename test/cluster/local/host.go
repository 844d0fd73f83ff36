package local

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// before is the state of the machine before the cluster, for everything that the cluster changes.
type before struct {
	Settings map[string]string // Content by path below /proc/sys.
	Tables   []string          // nftables tables, such as "ip filter".
	Made     []string          // Directories made as mount points.
}

// settings returns the settings that kubelet (the first six), the CNI plugin bridge and kube-proxy change.
func settings() []string {
	return []string{
		"vm/overcommit_memory", "vm/panic_on_oom", "kernel/panic", "kernel/panic_on_oops",
		"kernel/keys/root_maxkeys", "kernel/keys/root_maxbytes",
		"net/ipv4/ip_forward", "net/ipv6/conf/all/forwarding", "net/ipv4/conf/all/route_localnet",
		"net/bridge/bridge-nf-call-iptables", "net/ipv4/vs/conntrack",
		"net/netfilter/nf_conntrack_max", "net/netfilter/nf_conntrack_tcp_timeout_established",
		"net/netfilter/nf_conntrack_tcp_timeout_close_wait", "net/netfilter/nf_conntrack_tcp_be_liberal",
	}
}

// tables returns the nftables tables of kube-proxy and portmap.
func tables() []string {
	return []string{"ip kube-proxy", "ip6 kube-proxy", "ip cni_hostport", "ip6 cni_hostport"}
}

// look records the state of the machine. The record is on disk before the cluster changes anything.
func look(ctx context.Context) error {
	b := before{Settings: map[string]string{}}
	for _, name := range settings() {
		if text, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			b.Settings[name] = strings.TrimSpace(string(text))
		}
	}
	var err error
	if b.Tables, err = nftTables(ctx); err != nil {
		return err
	}
	for _, table := range tables() {
		if slices.Contains(b.Tables, table) {
			return fmt.Errorf("%w: there is an nftables table %q: it is a node of a cluster already", ErrHost, table)
		}
	}
	for _, dir := range nodeDirs() {
		b.Made = append(b.Made, missing(dir)...)
	}
	return b.save()
}

// missing returns the directories that creating dir would create, the deepest first.
func missing(dir string) []string {
	var all []string
	for ; dir != "/"; dir = filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		all = append(all, dir)
	}
	return all
}

func (b before) save() error {
	text, err := json.MarshalIndent(b, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file("before.json"), text, 0o600)
}

// restore restores the recorded state. Without a record there is nothing to restore, because nothing was changed
// either.
func restore(ctx context.Context) error {
	text, err := os.ReadFile(file("before.json"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var b before
	if err == nil {
		err = json.Unmarshal(text, &b)
	}
	if err != nil {
		return fmt.Errorf("what the machine was before: %w", err)
	}
	for name, want := range b.Settings {
		err = errors.Join(err, restoreSetting(filepath.Join("/proc/sys", name), want))
	}
	there, listErr := nftTables(ctx)
	err = errors.Join(err, listErr)
	for _, table := range tables() {
		if slices.Contains(there, table) && !slices.Contains(b.Tables, table) {
			_, deleteErr := command(ctx, append([]string{"nft", "delete", "table"}, strings.Fields(table)...)...)
			err = errors.Join(err, deleteErr)
		}
	}
	for _, dir := range b.Made {
		// If another program has files there by now, the directory stays.
		if rmErr := unix.Rmdir(dir); rmErr != nil && !errors.Is(rmErr, unix.ENOENT) && !errors.Is(rmErr, unix.ENOTEMPTY) {
			err = errors.Join(err, fmt.Errorf("remove %s: %w", dir, rmErr))
		}
	}
	return err
}

func restoreSetting(path, want string) error {
	text, err := os.ReadFile(path)
	if err == nil && strings.TrimSpace(string(text)) != want {
		err = os.WriteFile(path, []byte(want), 0)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil // The setting disappeared with its module.
	}
	return err
}

// nftTables lists tables as "FAMILY NAME".
func nftTables(ctx context.Context) ([]string, error) {
	text, err := command(ctx, "nft", "list", "tables")
	var all []string
	for line := range strings.Lines(text) {
		all = append(all, strings.TrimSpace(strings.TrimPrefix(line, "table ")))
	}
	return all, err
}

// makeLink makes the link that has the cluster's addresses. It is a bridge without ports: a kernel that connects pods
// supports bridges, but not every kernel has dummy links.
func makeLink(ctx context.Context) error {
	for _, argv := range [][]string{
		{"ip", "link", "add", link, "type", "bridge"},
		{"ip", "addr", "add", Address + "/32", "dev", link},
		{"ip", "addr", "add", SecondAddress + "/32", "dev", link},
		{"ip", "link", "set", link, "up"},
	} {
		if _, err := command(ctx, argv...); err != nil {
			return err
		}
	}
	return nil
}

// removeLinks removes the links of the cluster and the host ends of the pods' veth pairs.
func removeLinks(ctx context.Context) error {
	type entry struct {
		Name   string `json:"ifname"`
		Master string `json:"master"`
	}
	text, err := command(ctx, "ip", "-json", "link", "show")
	if err != nil {
		return err
	}
	var links []entry
	if err := json.Unmarshal([]byte(text), &links); err != nil {
		return fmt.Errorf("list of links: %w", err)
	}
	for _, l := range links {
		if l.Master != bridge && l.Name != bridge && l.Name != link {
			continue
		}
		// A veth link disappears with its other end.
		if _, deleteErr := command(ctx, "ip", "link", "delete", l.Name); deleteErr != nil && exists("/sys/class/net/"+l.Name) {
			err = errors.Join(err, deleteErr)
		}
	}
	return err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// command runs a program and returns what it printed.
func command(ctx context.Context, argv ...string) (string, error) {
	var out, complaint bytes.Buffer
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	if err := cmd.Run(); err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", strings.Join(argv, " "), err, strings.TrimSpace(complaint.String()))
	}
	return out.String(), nil
}

// check reports what the machine lacks.
func check() error {
	if os.Geteuid() != 0 {
		return fmt.Errorf("%w: it takes root", ErrHost)
	}
	for program, debian := range map[string]string{"ip": "iproute2", "nft": "nftables", "mount": "mount"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("%w: there is no program %s; on Debian: apt-get install %s", ErrHost, program, debian)
		}
	}
	return nil
}
