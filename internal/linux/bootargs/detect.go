package bootargs

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
)

// Loader is a boot loader whose files Berth can change.
type Loader string

// The boot loaders.
const (
	GRUB        Loader = "grub"
	BLS         Loader = "bls"
	SystemdBoot Loader = "systemd-boot"
	Extlinux    Loader = "extlinux"
)

// ErrByHand means that Berth does not set the boot arguments of this machine. The text says why, and what to do by
// hand.
var ErrByHand = errors.New("boot arguments have to be set by hand here")

// GRUBConfig is the file that update-grub writes.
const GRUBConfig = "boot/grub/grub.cfg"

// The files of the loaders.
const (
	grubDefault = "etc/default/grub"
	grubParts   = "etc/default/grub.d"
	ownPart     = grubParts + "/zz-berth.cfg"
	grub2Config = "boot/grub2/grub.cfg"
	grub2Env    = "boot/grub2/grubenv"
	newKernels  = "etc/kernel/cmdline"
	extlinuxCfg = "boot/extlinux/extlinux.conf"
)

// partitions returns where the files of firmware and of loaders may be.
func partitions() []string { return []string{"boot", "efi", "boot/efi"} }

// tree reads the files for Make, and remembers the first error that is not a missing file.
type tree struct {
	fsys fs.FS
	err  error
}

func (t *tree) note(name string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) && t.err == nil {
		t.err = fmt.Errorf("/%s: %w", name, err)
	}
}

func (t *tree) exists(name string) bool {
	_, err := fs.Stat(t.fsys, name)
	t.note(name, err)
	return err == nil
}

func (t *tree) text(name string) string {
	data, err := fs.ReadFile(t.fsys, name)
	t.note(name, err)
	return string(data)
}

// named returns the files of a directory with a suffix.
func (t *tree) named(dir, suffix string) []string {
	entries, err := fs.ReadDir(t.fsys, dir)
	t.note(dir, err)
	var names []string
	for _, e := range entries {
		if strings.HasSuffix(strings.ToLower(e.Name()), suffix) {
			names = append(names, path.Join(dir, e.Name()))
		}
	}
	return names
}

// entries returns the entries of the Boot Loader Specification, except for rescue and trial entries.
func (t *tree) entries() []string {
	var all []string
	for _, p := range partitions() {
		all = append(all, t.named(p+"/loader/entries", ".conf")...)
	}
	return slices.DeleteFunc(all, func(name string) bool { return isRescue(path.Base(name)) || path.Base(name) == trialFile })
}

func (t *tree) images() []string {
	var all []string
	for _, p := range partitions() {
		all = append(all, t.named(p+"/EFI/Linux", ".efi")...)
	}
	return all
}

// firmware reports whether systemd-boot is on a partition.
func (t *tree) firmware() bool {
	return slices.ContainsFunc(partitions(), func(p string) bool { return len(t.named(p+"/EFI/systemd", ".efi")) > 0 })
}

// detect returns the boot loader of the tree. The error is ErrByHand.
func (t *tree) detect() (Loader, error) {
	ostree := slices.ContainsFunc(Tokens(t.text("proc/cmdline")), func(token string) bool { return nameOf(token) == "ostree" })
	if ostree || t.exists("ostree/repo") {
		return "", fmt.Errorf("%w: ostree writes the entries: rpm-ostree kargs --append-if-missing=TOKEN", ErrByHand)
	}
	if images := t.images(); len(images) > 0 {
		return "", fmt.Errorf("%w: /%s is a unified kernel image, which has its arguments inside: add them to /etc/kernel/cmdline and build it again", ErrByHand, images[0])
	}
	entries := len(t.entries()) > 0
	var found []Loader
	if t.exists(GRUBConfig) && t.exists(grubDefault) && t.exists("etc/debian_version") {
		found = append(found, GRUB)
	}
	if entries && strings.Contains(t.text(grub2Config), "blscfg") {
		found = append(found, BLS)
	}
	if entries && t.firmware() {
		found = append(found, SystemdBoot)
	}
	if t.exists(extlinuxCfg) {
		found = append(found, Extlinux)
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%w: no boot loader that Berth knows: Debian's GRUB, BLS entries, systemd-boot, extlinux", ErrByHand)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%w: the files of several boot loaders, %v, and it is not known which one boots", ErrByHand, found)
	}
}
