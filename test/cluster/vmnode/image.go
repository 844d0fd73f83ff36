package vmnode

import (
	"context"
	"crypto/sha256"
	"embed"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-project/berth/test/kernel"
)

// rootfs contains the files of the image other than Debian's.
//
//go:embed all:rootfs
var rootfs embed.FS

const (
	release = "trixie"
	mirror  = "http://deb.debian.org/debian"
	// diskSize is the nominal size of a node's disk; it occupies only the written blocks.
	diskSize = "16G"
	// stale is the age at which an image with other content is removed from the cache.
	stale = 7 * 24 * time.Hour
)

// packages returns the packages of the root file system beyond Debian's minimum.
func packages() []string {
	return []string{
		"systemd", "systemd-sysv", "dbus", "udev", "kmod", "mount", "util-linux", "iproute2", "procps",
		"iptables", "nftables", "conntrack", "ebtables", "ethtool", "socat", "ca-certificates", "libseccomp2",
		"irqbalance",
	}
}

// enabled returns the services of rootfs that every boot starts.
func enabled() []string {
	return []string{
		"berth-setup.service", "berth-exec.service", "berth-journal.service",
		"containerd.service", "kubelet.service", "kube-proxy.service",
	}
}

// masked returns services of Debian that a machine without users, devices and updates does not need. Each costs an
// emulated processor up to seconds.
func masked() []string {
	return []string{
		"apt-daily.timer", "apt-daily-upgrade.timer", "dpkg-db-backup.timer", "fstrim.timer",
		"e2scrub_all.timer", "e2scrub_reap.service", "systemd-tmpfiles-clean.timer", "conntrackd.service",
		"getty.target", "getty@tty1.service", "getty-static.service", "serial-getty@ttyS0.service",
		"systemd-udevd.service", "systemd-udev-trigger.service", "systemd-udevd-control.socket", "systemd-udevd-kernel.socket",
		"systemd-hwdb-update.service", "systemd-journal-catalog-update.service", "ldconfig.service",
		"systemd-update-done.service", "systemd-firstboot.service", "systemd-machine-id-commit.service",
		"systemd-binfmt.service", "systemd-pstore.service", "systemd-random-seed.service", "systemd-hibernate-clear.service",
		"systemd-ask-password-wall.path", "systemd-ask-password-console.path", "systemd-logind.service",
		"systemd-user-sessions.service", "systemd-timesyncd.service", "systemd-networkd.service",
		"systemd-tpm2-setup.service", "systemd-tpm2-setup-early.service", "systemd-sysusers.service",
		"sys-fs-fuse-connections.mount", "sys-kernel-config.mount", "proc-sys-fs-binfmt_misc.automount",
		"systemd-modules-load.service", "kmod-static-nodes.service", "systemd-journal-flush.service",
		"irqbalance.service", // a test of a host starts it
	}
}

// Check returns [kernel.ErrMissing], with the command that installs the missing packages, if this host lacks a
// requirement of a node.
func Check(ctx context.Context) error { return kernel.CheckNode(ctx) }

// Build fills the cache: the kernel (minutes, once) and the root image (a minute or two for each change of the package
// list, only as root). Start does it too; Build reports its progress on log.
func Build(ctx context.Context, log io.Writer) error {
	if _, err := kernel.Own(ctx, log); err != nil {
		return err
	}
	_, err := image(ctx, log)
	if errors.Is(err, ErrRoot) {
		fmt.Fprintf(log, "%v: there will be no node in a virtual machine\n", err)
		return nil
	}
	return err
}

// ErrRoot reports that the caller is not root, which making a root file system needs.
var ErrRoot = errors.New("a root file system is made as root")

// image returns the path of the root image. It makes the image if the cache has none with this content.
func image(ctx context.Context, log io.Writer) (string, error) {
	if os.Geteuid() != 0 {
		return "", ErrRoot
	}
	tree, err := kernel.Cached("trees", key(release, mirror, strings.Join(packages(), " ")), "tree", func(dir string) error {
		fmt.Fprintf(log, "debootstrap %s: a minute or two, once\n", release)
		return debootstrap(ctx, filepath.Join(dir, "tree"))
	})
	if err != nil {
		return "", err
	}
	content, err := content()
	if err != nil {
		return "", err
	}
	return kernel.Cached("nodes", key(tree, content, diskSize, strings.Join(format(), " ")), "root.img", func(dir string) error {
		fmt.Fprintln(log, "root image: mke2fs")
		return errors.Join(furnish(ctx, tree, dir), prune(filepath.Dir(tree)), prune(dir))
	})
}

// key returns a short hash of parts.
func key(parts ...string) string {
	return fmt.Sprintf("%x", sha256.Sum256([]byte(strings.Join(parts, "\x00"))))[:12]
}

// content returns everything that furnish puts into an image, as text.
func content() (string, error) {
	text := strings.Join(append(enabled(), masked()...), " ")
	err := fs.WalkDir(rootfs, "rootfs", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		file, err := rootfs.ReadFile(name)
		text += "\x00" + name + "\x00" + string(file)
		return err
	})
	return text, err
}

// debootstrap makes a Debian tree without documentation.
func debootstrap(ctx context.Context, tree string) error {
	if err := run(ctx, "debootstrap", "--variant=minbase", "--include="+strings.Join(packages(), ","), release, tree, mirror); err != nil {
		return err
	}
	for _, dir := range []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "var/cache/apt", "var/lib/apt/lists", "var/log"} {
		if err := os.RemoveAll(filepath.Join(tree, dir)); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(tree, "var/log"), 0o755)
}

// furnish makes the image DIR/root.img from a tree and the files of rootfs. The tree stays unchanged: the copy consists
// of hard links, and furnish replaces files instead of writing them.
func furnish(ctx context.Context, tree, dir string) error {
	root := filepath.Join(dir, "root")
	if err := run(ctx, "cp", "-al", tree, root); err != nil {
		return err
	}
	ours, err := fs.Sub(rootfs, "rootfs")
	if err != nil {
		return fmt.Errorf("embedded files: %w", err)
	}
	if err := os.CopyFS(root, ours); err != nil {
		return fmt.Errorf("copy our files: %w", err)
	}
	units := filepath.Join(root, "etc/systemd/system")
	for _, unit := range masked() {
		if err := link("/dev/null", filepath.Join(units, unit)); err != nil {
			return err
		}
	}
	for _, unit := range enabled() {
		if err := link("../"+unit, filepath.Join(units, "multi-user.target.wants", unit)); err != nil {
			return err
		}
	}
	for name, text := range map[string]string{
		"etc/hostname": "", "etc/fstab": "",
		// Without a machine id systemd would treat each boot as the first. The kernel command line has the node's own.
		"etc/machine-id":  machineID("image") + "\n",
		"etc/resolv.conf": "nameserver 10.0.2.3\n", "etc/hosts": "127.0.0.1 localhost\n",
	} {
		if err := os.Remove(filepath.Join(root, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		if text == "" {
			continue
		}
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(filepath.Join(root, "opt/berth"), 0o755); err != nil {
		return err
	}
	if err := disk(ctx, root, filepath.Join(dir, "root.img"), diskSize); err != nil {
		return err
	}
	return os.RemoveAll(root)
}

// link makes a symbolic link in place of an existing file.
func link(to, name string) error {
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	if err := os.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Symlink(to, name)
}

// disk makes a sparse ext4 image of a directory.
func disk(ctx context.Context, dir, image, size string) error {
	if err := os.RemoveAll(image); err != nil {
		return err
	}
	args := append([]string{"/usr/sbin/mke2fs", "-q"}, format()...)
	return run(ctx, append(args, "-d", dir, image, size)...)
}

// format returns options of mke2fs: a small journal, no checksums, and no writing of zeroes. Checksums would cost an
// emulated processor more than a crash of the host would cost.
func format() []string {
	return []string{
		"-t", "ext4", "-m", "0", "-i", "65536", "-J", "size=32", "-O", "^metadata_csum",
		"-E", "root_owner=0:0,lazy_itable_init=1,lazy_journal_init=1,nodiscard",
	}
}

// prune removes old entries beside the current entry of the cache.
func prune(current string) error {
	all, err := os.ReadDir(filepath.Dir(current))
	if err != nil {
		return err
	}
	for _, entry := range all {
		info, err := entry.Info()
		if err != nil || !entry.IsDir() || strings.HasPrefix(filepath.Base(current), entry.Name()) || time.Since(info.ModTime()) < stale {
			continue
		}
		if err := os.RemoveAll(filepath.Join(filepath.Dir(current), entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// run runs a program of the host; its output is in the error.
func run(ctx context.Context, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	if out, err := cmd.CombinedOutput(); err != nil {
		text := string(out)
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, text[max(0, len(text)-4000):])
	}
	return nil
}
