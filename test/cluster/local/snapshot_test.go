package local

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// snapshot records the parts of a machine on which a cluster may leave something. It omits everything that plainly
// belongs to another program, because the machine may do other work at the same time.
type snapshot struct {
	Mounts, Links, Groups, Dirs, Tables []string
	Settings                            map[string]string
	Processes                           []string // Only processes that belong to a cluster.
}

func takeSnapshot(t *testing.T) snapshot {
	t.Helper()
	s := snapshot{Settings: map[string]string{}}
	mounts, err := os.ReadFile("/proc/self/mounts")
	must(t, err)
	for line := range strings.Lines(string(mounts)) {
		if slices.ContainsFunc(append(nodeDirs(), Dir), func(dir string) bool { return strings.Contains(line, dir) }) {
			s.Mounts = append(s.Mounts, strings.TrimSpace(line))
		}
	}
	s.Links = append(names(t, "/sys/class/net/berth*"), names(t, "/sys/class/net/veth*")...)
	s.Groups, err = groupDirs()
	must(t, err)
	for _, dir := range append(nodeDirs(), Dir) {
		// If the directory existed before, it belongs to another program, whose files may change.
		if exists(dir) {
			s.Dirs = append(s.Dirs, dir)
		}
	}
	all, err := nftTables(t.Context())
	must(t, err)
	for _, table := range all {
		if strings.Contains(table, "cni") || strings.Contains(table, "kube") {
			s.Tables = append(s.Tables, table)
		}
	}
	for _, name := range settings() {
		if text, err := os.ReadFile(filepath.Join("/proc/sys", name)); err == nil {
			s.Settings[name] = string(text)
		}
	}
	s.Processes = processes(t)
	return s
}

// processes returns the command lines of processes that were started with a file of the cluster, or are in its groups.
func processes(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, dir := range names(t, "/proc/[0-9]*") {
		line, err := os.ReadFile(filepath.Join(dir, "cmdline"))
		groups, groupErr := os.ReadFile(filepath.Join(dir, "cgroup"))
		if err != nil || groupErr != nil || len(line) == 0 {
			continue // It has ended, and init may not have reaped it yet.
		}
		text := strings.ReplaceAll(string(line), "\x00", " ")
		if strings.Contains(text, Dir) || strings.Contains(text, "localcluster supervise") || strings.Contains(string(groups), Group+"/") {
			all = append(all, text)
		}
	}
	return all
}

func names(t *testing.T, pattern string) []string {
	t.Helper()
	found, err := filepath.Glob(pattern)
	must(t, err)
	return found
}

// nothingLeft compares the machine with the snapshot taken before.
func nothingLeft(t *testing.T, before snapshot) {
	t.Helper()
	if diff := cmp.Diff(before, takeSnapshot(t)); diff != "" {
		t.Errorf("broken law: the cluster leaves something (-before +after):\n%s", diff)
	}
}

// TestWhereFilesAre compares paths inside and outside the cluster's mount name space.
func TestWhereFilesAre(t *testing.T) {
	if got, want := NodePath("/run/containerd/containerd.sock"), Dir+"/node/run-containerd/containerd.sock"; got != want {
		t.Errorf("NodePath() = %s, want %s", got, want)
	}
	for _, path := range []string{"/run/containerdx", "/etc/hosts"} {
		if got := NodePath(path); got != path {
			t.Errorf("NodePath(%s) = %s, want it as it is", path, got)
		}
	}
	dirs := map[string]bool{}
	for _, dir := range nodeDirs() {
		dirs[hostDir(dir)] = true
	}
	if len(dirs) != len(nodeDirs()) {
		t.Errorf("two directories of a node are the same one: %q", slices.Sorted(maps.Keys(dirs)))
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
