package kernel

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
)

// BLS is a Debian whose GRUB boots entries of the Boot Loader Specification: those below /boot/loader/entries. Its
// configuration is /boot/grub2/grub.cfg.
type BLS struct{ *Debian }

// The menu of such a machine is a file of another disk, which each boot makes.
const (
	menuDir = "menu"
	menuMiB = 4
)

// NewBLS makes the disk in dir, with these files in addition.
func NewBLS(ctx context.Context, files map[string][]byte, dir string, log io.Writer) (*BLS, error) {
	loader, err := NewGRUB(ctx, "", dir, log)
	if err != nil {
		return nil, err
	}
	early := filepath.Join(dir, "early.cfg")
	text := fmt.Sprintf("search --no-floppy --file --set=menu /%[1]s/grub.cfg\nset prefix=($menu)/%[1]s\n", menuDir)
	if err := os.WriteFile(early, []byte(text), 0o600); err != nil {
		return nil, err
	}
	loader.image = filepath.Join(dir, "core.img")
	if err := makeImage(ctx, loader.loader, loader.image, "-c", early, "-O", "i386-pc", "-d", "usr/lib/grub/i386-pc", "-p", "/", "biosdisk"); err != nil {
		return nil, err
	}
	debian, err := newDebian(ctx, loader, files, log)
	if err != nil {
		return nil, err
	}
	debian.drives = []string{"-drive", "file=" + filepath.Join(dir, menuDir+".disk") + ",format=raw,if=none,id=menu,readonly=on", "-device", "virtio-blk-pci,drive=menu,bootindex=2"}
	return &BLS{debian}, nil
}

// Boot is Debian.Boot. Before it, Boot does the part of Fedora's command blscfg. As GRUB does, it reads the entries from
// the disk without the log of the file system, which a power cut may have left.
func (b *BLS) Boot(ctx context.Context, commands ...string) (string, error) {
	const entries = "entries"
	tree := filepath.Join(b.dir, menuDir+".tree")
	if err := errors.Join(os.RemoveAll(tree), os.RemoveAll(filepath.Join(b.dir, entries)), os.MkdirAll(filepath.Join(tree, menuDir), 0o755)); err != nil {
		return "", err
	}
	if err := inDir(ctx, b.dir, "debugfs", "-R", "rdump /boot/loader/"+entries+" .", fmt.Sprintf("%s?offset=%d", b.disk, firstBlock*sector)); err != nil {
		return "", err
	}
	menu, err := menuOf(filepath.Join(b.dir, entries), "")
	if err != nil {
		return "", err
	}
	menu = "search --no-floppy --file --set=root /boot/grub2/grub.cfg\n" + menu
	if err := os.WriteFile(filepath.Join(tree, menuDir, "grub.cfg"), []byte(menu), 0o600); err != nil {
		return "", err
	}
	disk := menuDir + ".disk"
	if err := errors.Join(os.RemoveAll(filepath.Join(b.dir, disk)),
		inDir(ctx, b.dir, "mke2fs", "-q", "-t", "ext2", "-F", "-d", tree, disk, fmt.Sprintf("%dM", menuMiB))); err != nil {
		return "", err
	}
	return b.Debian.Boot(ctx, commands...)
}

// menuOf returns a configuration of GRUB that runs /boot/grub2/grub.cfg of the disk root. It defines the command blscfg,
// which only Fedora's GRUB has: an entry of the menu for each file of a directory, with the name of the file as its id,
// and with the initramfs, if any.
func menuOf(dir, initramfs string) (string, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*.conf"))
	if err != nil || len(files) == 0 {
		return "", errors.Join(err, fmt.Errorf("%s: %d entries", dir, len(files)))
	}
	var menu strings.Builder
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return "", err
		}
		line := func(key string) string {
			return strings.Join(regexp.MustCompile(`(?m)^` + key + `\s+(.*)$`).FindStringSubmatch(string(text))[1:], "")
		}
		fmt.Fprintf(&menu, "menuentry '%s' --id '%s' {\n\tlinux %s %s\n",
			line("title"), strings.TrimSuffix(filepath.Base(file), ".conf"), line("linux"), line("options"))
		if initramfs != "" {
			fmt.Fprintf(&menu, "\tinitrd %s\n", initramfs)
		}
		menu.WriteString("}\n")
	}
	return "function blscfg {\n" + menu.String() + "}\nset prefix=($root)/boot/grub2\nload_env\nset timeout=0\nsource $prefix/grub.cfg\n", nil
}
