package kernel

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// Debian is a machine with a disk that keeps what the system writes. The disk has Debian's GRUB, its update-grub and
// the programs which that needs, all from their packages. The BIOS starts GRUB.
type Debian struct {
	dir, disk string
	drives    []string // options of QEMU for more disks
}

// debianMiB is the size of its file system.
const debianMiB = 384

// debianPackages returns the packages of update-grub. The other programs are those which Debian always has, and which
// packages need not name.
func debianPackages() []string {
	return []string{"grub2-common", "grub-common", "grub-pc-bin", "base-files", "coreutils", "dash", "debianutils", "diffutils", "gettext-base", "grep", "mawk", "sed"}
}

// NewDebian makes the disk in dir, with these files in addition. It installs no package.
func NewDebian(ctx context.Context, files map[string][]byte, dir string, log io.Writer) (*Debian, error) {
	loader, err := NewGRUB(ctx, "", dir, log)
	if err != nil {
		return nil, err
	}
	return newDebian(ctx, loader, files, log)
}

// newDebian is NewDebian with this GRUB.
func newDebian(ctx context.Context, loader *GRUB, files map[string][]byte, log io.Writer) (*Debian, error) {
	tree, err := debianTree(ctx, log)
	if err != nil {
		return nil, err
	}
	dir := loader.dir
	root := filepath.Join(dir, "root")
	if err := inDir(ctx, dir, "cp", "-a", tree, root); err != nil {
		return nil, err
	}
	if err := loader.install(ctx, root); err != nil {
		return nil, err
	}
	for name, text := range files {
		file := filepath.Join(root, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, text, 0o755)); err != nil {
			return nil, err
		}
	}
	d := &Debian{dir: dir, disk: filepath.Join(dir, "disk")}
	if err := inDir(ctx, dir, "mke2fs", "-q", "-t", "ext4", "-F", "-d", root, "-E", fmt.Sprintf("root_owner=0:0,offset=%d", firstBlock*sector), d.disk, fmt.Sprintf("%dM", debianMiB)); err != nil {
		return nil, err
	}
	boot, core, err := loader.core()
	if err != nil {
		return nil, err
	}
	disk, err := os.OpenFile(d.disk, os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = disk.WriteAt(before(boot, core, debianMiB<<20), 0)
	return d, errors.Join(err, disk.Close())
}

// install copies GRUB's modules to /boot, as grub-install does.
func (g *GRUB) install(ctx context.Context, root string) error {
	into := filepath.Join(root, "boot/grub")
	return errors.Join(os.MkdirAll(into, 0o755), inDir(ctx, g.dir, "cp", "-a", filepath.Join(g.loader, "usr/lib/grub/i386-pc"), into))
}

// debianTree unpacks the packages of Debian's system, with all that they depend on.
func debianTree(ctx context.Context, log io.Writer) (string, error) {
	argv := append([]string{"depends", "--recurse", "--no-recommends", "--no-suggests", "--no-conflicts", "--no-breaks", "--no-replaces", "--no-enhances"}, debianPackages()...)
	out, err := exec.CommandContext(ctx, "apt-cache", argv...).Output()
	if err != nil {
		return "", fmt.Errorf("apt-cache %s: %w", strings.Join(argv, " "), err)
	}
	var names []string
	for line := range strings.Lines(string(out)) {
		if name := strings.TrimSpace(line); name == strings.TrimRight(line, "\n") && !strings.ContainsAny(name, "<:") { // no relation, no virtual package
			names = append(names, name)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	files, err := exec.CommandContext(ctx, "apt-get", append([]string{"download", "-q", "--print-uris"}, names...)...).Output()
	if err != nil {
		return "", fmt.Errorf("apt-get download --print-uris %s: %w", strings.Join(names, " "), err)
	}
	return Cached("loaders", fmt.Sprintf("debian_%.6x", sha256.Sum256(files)), "tree", func(dir string) error {
		_, _ = fmt.Fprintf(log, "%s: apt-get download\n", strings.Join(names, " "))
		if err := inDir(ctx, dir, append([]string{"apt-get", "download", "-q"}, names...)...); err != nil {
			return err
		}
		debs, err := filepath.Glob(filepath.Join(dir, "*.deb"))
		if err != nil {
			return err
		}
		tree := filepath.Join(dir, "tree")
		for _, deb := range debs {
			if err := errors.Join(inDir(ctx, dir, "dpkg-deb", "-x", deb, tree), os.Remove(deb)); err != nil {
				return err
			}
		}
		for _, unused := range []string{"usr/share/doc", "usr/share/man", "usr/share/locale", "usr/share/info", "usr/lib/x86_64-linux-gnu/gconv"} {
			if err := os.RemoveAll(filepath.Join(tree, unused)); err != nil {
				return err
			}
		}
		return nil
	})
}

// Boot boots once, runs the commands in the guest, and returns the console output. A command is a line of a shell; the
// command cut ends the boot as a power cut does.
func (d *Debian) Boot(ctx context.Context, commands ...string) (string, error) {
	text := strings.Join(commands, "\n")
	orders := filepath.Join(d.dir, "orders")
	if err := os.WriteFile(orders, append([]byte(text), make([]byte, sector-len(text)%sector)...), 0o600); err != nil {
		return "", err
	}
	return bootFrom(ctx, d.dir, "512", append([]string{
		"-drive", "file=" + d.disk + ",format=raw,if=none,id=disk", "-device", "virtio-blk-pci,drive=disk,bootindex=1",
		"-drive", "file=" + orders + ",format=raw,if=none,id=orders,readonly=on", "-device", "virtio-blk-pci,drive=orders",
	}, d.drives...)...)
}
