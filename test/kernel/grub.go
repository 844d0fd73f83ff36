package kernel

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-project/berth/test/patience"
)

// GRUB is a machine that boots from a disk with GRUB. The files of its boot loader, including kernels, are below a
// directory.
type GRUB struct {
	// Tree is that directory. Each boot makes the only partition from it.
	Tree string
	// Environment is the file in Tree that GRUB writes.
	Environment string

	dir, loader string
	// image is the file with GRUB's core for the BIOS, "" for the usual image in loader.
	image string
	// uefi is the firmware that starts GRUB from a separate partition, nil with the BIOS.
	uefi *firmware
}

// The layout of the disk: GRUB's core is between the partition table and the first partition.
const (
	sector     = 512
	firstBlock = 2048
	diskMiB    = 64
)

// grubEnvironment is GRUB's environment block on Debian.
const grubEnvironment = "boot/grub/grubenv"

// bootedWith begins the line that program cmdline prints.
const bootedWith = "booted with: "

// systemPartition is the mount point of GRUB's own partition on a machine with UEFI firmware.
const systemPartition = "boot/efi"

// NewGRUB extracts GRUB from its packages, without installing them, and works in dir. The BIOS starts it.
func NewGRUB(ctx context.Context, tree, dir string, log io.Writer) (*GRUB, error) {
	return newGRUB(ctx, &GRUB{Tree: tree, Environment: grubEnvironment, dir: dir}, log, "grub-pc-bin", "core.img",
		"-O", "i386-pc", "-d", "usr/lib/grub/i386-pc", "-p", "(hd0,msdos1)/boot/grub", "biosdisk")
}

// NewGRUBOfUEFI is NewGRUB on a machine with UEFI firmware. Like Debian's GRUB, it has a configuration on its own
// partition that finds the system's.
func NewGRUBOfUEFI(ctx context.Context, tree, dir string, log io.Writer) (*GRUB, error) {
	const file, early = "grubx64.efi", "early.cfg"
	uefi, err := newFirmware(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	g, err := newGRUB(ctx, &GRUB{Tree: tree, Environment: grubEnvironment, dir: dir, uefi: uefi}, log, "grub-efi-amd64-bin", file,
		"-O", "x86_64-efi", "-d", "usr/lib/grub/x86_64-efi", "-p", "/EFI/debian", "fat")
	if err != nil {
		return nil, err
	}
	partition := filepath.Join(tree, systemPartition)
	const find = "search --no-floppy --file --set=root /boot/grub/grub.cfg\nset prefix=($root)/boot/grub\nconfigfile $prefix/grub.cfg\n"
	return g, errors.Join(
		copyFile(filepath.Join(g.loader, file), filepath.Join(partition, removable)),
		os.MkdirAll(filepath.Join(partition, "EFI/debian"), 0o755),
		os.WriteFile(filepath.Join(partition, "EFI/debian/grub.cfg"), []byte(find), 0o600),
	)
}

// newGRUB makes the image of GRUB with the modules that its files need.
func newGRUB(ctx context.Context, g *GRUB, log io.Writer, from, image string, args ...string) (*GRUB, error) {
	if missing := absent([]need{{QEMU, "qemu-system-x86"}, {"/usr/sbin/mke2fs", "e2fsprogs"}}); len(missing) > 0 {
		return nil, toInstall(missing)
	}
	made, err := unpacked(ctx, log, image, func(into string) error {
		return makeImage(ctx, into, image, args...)
	}, from, "grub-common")
	g.loader = filepath.Dir(made)
	return g, err
}

// makeImage makes an image of GRUB from the packages in a directory, with these arguments.
func makeImage(ctx context.Context, dir, image string, args ...string) error {
	argv := append([]string{"usr/bin/grub-mkimage", "-o", image}, args...)
	return inDir(ctx, dir, append(argv, "part_msdos", "ext2", "normal", "linux", "configfile", "loadenv", "test", "echo",
		"search", "search_fs_uuid", "search_fs_file", "gzio")...)
}

// unpacked returns the path of a file from packages. After unpacking them it calls finish in their directory.
func unpacked(ctx context.Context, log io.Writer, file string, finish func(dir string) error, packages ...string) (string, error) {
	var key []string
	for _, name := range packages {
		version, err := candidate(ctx, name)
		if err != nil {
			return "", err
		}
		key = append(key, name, version)
	}
	return Cached("loaders", strings.Join(key, "_"), file, func(into string) error {
		for _, name := range packages {
			_, _ = fmt.Fprintf(log, "%s: apt-get download\n", name)
			if err := unpack(ctx, name, into); err != nil {
				return err
			}
		}
		return finish(into)
	})
}

// unpack downloads a package and extracts its files into a directory.
func unpack(ctx context.Context, name, dir string) error {
	if err := inDir(ctx, dir, "apt-get", "download", "-q", name); err != nil {
		return err
	}
	debs, err := filepath.Glob(filepath.Join(dir, name+"_*.deb"))
	if err != nil || len(debs) != 1 {
		return fmt.Errorf("apt-get download %s: left %d packages, not 1: %w", name, len(debs), err)
	}
	return errors.Join(inDir(ctx, dir, "dpkg-deb", "-x", debs[0], "."), os.Remove(debs[0]))
}

// inDir runs a program in a directory.
func inDir(ctx context.Context, dir string, argv ...string) error {
	cmd := exec.CommandContext(ctx, argv[0], argv[1:]...)
	cmd.Dir = dir
	if strings.Contains(argv[0], "/") {
		cmd.Path = filepath.Join(dir, argv[0])
	}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s", strings.Join(argv, " "), err, out)
	}
	return nil
}

// Boot makes the disk, boots from it once, and copies GRUB's changed environment block back to Tree. It returns the
// kernel's console output. Now and then an emulated boot from UEFI firmware resets between GRUB and the kernel's first
// message. Such a boot does not count: Boot makes the disk again and ignores what GRUB wrote.
func (g *GRUB) Boot(ctx context.Context) (string, error) {
	const tries = 3
	disk := filepath.Join(g.dir, "disk")
	for try := 1; ; try++ {
		said, err := g.bootOnce(ctx, disk)
		if err != nil {
			return "", err
		}
		if try < tries && !strings.Contains(said, bootedWith) && !strings.Contains(said, "Kernel panic") {
			fmt.Fprintln(os.Stderr, "once more: the kernel said nothing")
			continue
		}
		read := "dump /" + g.Environment + " " + filepath.Join(g.Tree, g.Environment)
		return said, inDir(ctx, g.dir, "debugfs", "-R", read, fmt.Sprintf("%s?offset=%d", disk, firstBlock*sector))
	}
}

func (g *GRUB) bootOnce(ctx context.Context, disk string) (string, error) {
	if err := g.makeDisk(ctx, disk); err != nil {
		return "", err
	}
	mib, drives := "256", []string{"-drive", "file=" + disk + ",format=raw,if=none,id=disk", "-device", "ide-hd,drive=disk"}
	if g.uefi != nil {
		mib, drives = "512", append(g.uefi.drives(filepath.Join(g.Tree, systemPartition)), drives...)
	}
	return bootFrom(ctx, g.dir, mib, drives...)
}

// bootFrom runs a machine with so many MiB of memory and these drives until it ends, and returns its console output. It
// works in dir.
func bootFrom(ctx context.Context, dir, mib string, drives ...string) (string, error) {
	console := filepath.Join(dir, "console")
	limited, _, cancel := patience.WithLimit(ctx, testLimit)
	defer cancel()
	args := append(processor(),
		"-machine", "q35", "-nodefaults", "-no-user-config", "-display", "none", "-vga", "std", "-m", mib, "-no-reboot", "-serial", "file:"+console)
	cmd := exec.CommandContext(limited, QEMU, append(args, drives...)...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%w: %w\n%s\nconsole:\n%s", ErrGuest, err, out, tail(console))
	}
	said, err := os.ReadFile(console)
	return string(said), err
}

// makeDisk makes a disk with GRUB before its partition.
func (g *GRUB) makeDisk(ctx context.Context, disk string) error {
	part := filepath.Join(g.dir, "part")
	if err := os.RemoveAll(part); err != nil {
		return err
	}
	if err := inDir(ctx, g.dir, "mke2fs", "-q", "-t", "ext4", "-F", "-d", g.Tree, part, fmt.Sprintf("%dM", diskMiB)); err != nil {
		return err
	}
	boot, core, err := g.core()
	if err != nil {
		return err
	}
	files, err := os.ReadFile(part)
	if err != nil {
		return err
	}
	return os.WriteFile(disk, append(before(boot, core, len(files)), files...), 0o600)
}

// core returns the boot sector's code and GRUB's core for the BIOS, nothing with UEFI firmware.
func (g *GRUB) core() (boot, core []byte, err error) {
	if g.uefi != nil {
		return nil, nil, nil
	}
	boot, err = os.ReadFile(filepath.Join(g.loader, "usr/lib/grub/i386-pc/boot.img"))
	if err != nil {
		return nil, nil, err
	}
	image := g.image
	if image == "" {
		image = filepath.Join(g.loader, "core.img")
	}
	core, err = os.ReadFile(image)
	return boot, core, err
}

// before returns the blocks before the only partition: the boot sector with the partition table, followed by GRUB's
// core, which the boot sector loads from there.
func before(boot, core []byte, bytes int) []byte {
	const code, drive, table, signature = 440, 0x66, 446, 510
	gap := make([]byte, firstBlock*sector)
	if copy(gap[:code], boot) > 0 {
		copy(gap[drive:], []byte{0x90, 0x90}) // as grub-bios-setup does: the firmware determines the disk
	}
	entry := []byte{0x80, 0, 2, 0, 0x83, 0xff, 0xff, 0xff}
	entry = binary.LittleEndian.AppendUint32(entry, firstBlock)
	entry = binary.LittleEndian.AppendUint32(entry, uint32(bytes/sector))
	copy(gap[table:], entry)
	copy(gap[signature:], []byte{0x55, 0xaa})
	copy(gap[sector:], core)
	return gap
}
