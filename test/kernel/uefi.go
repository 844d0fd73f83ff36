package kernel

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"unicode/utf16"
)

// firmware is the UEFI firmware of a machine.
type firmware struct {
	code string
	// store is the flash in which the firmware stores its variables.
	store string
}

// newFirmware extracts the firmware from its package, without installing it, and stores the variables in dir.
func newFirmware(ctx context.Context, dir string, log io.Writer) (*firmware, error) {
	code, err := unpacked(ctx, log, "usr/share/OVMF/OVMF_CODE_4M.fd", func(string) error { return nil }, "ovmf")
	if err != nil {
		return nil, err
	}
	f := &firmware{code: code, store: filepath.Join(dir, "variables")}
	return f, copyFile(filepath.Join(filepath.Dir(code), "OVMF_VARS_4M.fd"), f.store)
}

// drives returns the arguments for the firmware's flash and its system partition, a directory that the firmware only
// reads.
func (f *firmware) drives(partition string) []string {
	return []string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + f.code,
		"-drive", "if=pflash,format=raw,unit=1,file=" + f.store,
		"-drive", "file=fat:" + partition + ",format=raw,if=none,id=system,readonly=on", "-device", "virtio-blk-pci,drive=system",
	}
}

// removable is the file that firmware starts from a disk for which it has no entry.
const removable = "EFI/BOOT/BOOTX64.EFI"

// copyFile copies a file, and makes its directory.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600))
}

// UEFI is a machine with UEFI firmware, which starts systemd-boot.
type UEFI struct {
	// Tree is the root of its files. The directory efi in it is the system partition. The file OneShot in it is the
	// firmware variable for the entry of the next boot.
	Tree string

	dir string
	*firmware
}

// OneShot is the file of the variable from which systemd-boot reads the entry of one boot.
const OneShot = "sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// NewUEFI extracts firmware and loader from their packages, without installing them, and works in dir.
func NewUEFI(ctx context.Context, tree, dir string, log io.Writer) (*UEFI, error) {
	if missing := absent([]need{{QEMU, "qemu-system-x86"}}); len(missing) > 0 {
		return nil, toInstall(missing)
	}
	uefi, err := newFirmware(ctx, dir, log)
	if err != nil {
		return nil, err
	}
	loader, err := unpacked(ctx, log, "usr/lib/systemd/boot/efi/systemd-bootx64.efi", func(string) error { return nil }, "systemd-boot-efi")
	if err != nil {
		return nil, err
	}
	return &UEFI{Tree: tree, dir: dir, firmware: uefi}, copyFile(loader, filepath.Join(tree, "efi", removable))
}

// Boot writes the variable to the firmware, boots once, and copies the variable back. It returns the console output of
// firmware, loader and kernel.
func (u *UEFI) Boot(ctx context.Context) (string, error) {
	file := filepath.Join(u.Tree, OneShot)
	chosen, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	flash, err := os.ReadFile(u.store)
	if err != nil {
		return "", err
	}
	if err := choose(flash, chosen); err != nil {
		return "", err
	}
	if err := os.WriteFile(u.store, flash, 0o600); err != nil {
		return "", err
	}
	said, err := bootFrom(ctx, u.dir, "512", u.drives(filepath.Join(u.Tree, "efi"))...)
	if err != nil {
		return "", err
	}
	if flash, err = os.ReadFile(u.store); err != nil {
		return "", err
	}
	at, err := variable(flash)
	switch {
	case err != nil:
		return "", err
	case at.data != nil:
		return said, os.WriteFile(file, at.data, 0o600)
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", err
	}
	return said, nil
}

// The layout of the firmware's variables in its flash (MdeModulePkg/Include/Guid/VariableFormat.h of EDK II): a header
// of the volume with its length, a header of the store, and then each variable with its own header, up to the erased
// space.
const (
	volumeLength = 48 // offset of the length in the volume's header
	storeHeader  = 28
	varHeader    = 60
	varStart     = 0x55aa
	varAdded     = 0x3f // a state; each cleared bit has a meaning
	varDeleting  = 0x3e
	varDeleted   = 0xfd
	varAlign     = 4
)

// found is the position of a variable, with its attributes and data as efivarfs shows them. Without data it is the
// position for the next variable.
type found struct {
	at   int
	data []byte
}

// oneShotName returns the variable's name; oneShotVendor is its vendor.
func oneShotName() []byte {
	var name []byte
	for _, unit := range append(utf16.Encode([]rune("LoaderEntryOneShot")), 0) {
		name = binary.LittleEndian.AppendUint16(name, unit)
	}
	return name
}

func oneShotVendor() []byte {
	return []byte{0x82, 0xb0, 0x67, 0x4a, 0x4c, 0x0a, 0xcf, 0x41, 0xb6, 0xc7, 0x44, 0x0b, 0x29, 0xbb, 0x8c, 0x4f}
}

// errFlash reports a flash without a store of variables.
var errFlash = errors.New("no store of variables in the flash")

// variable finds the variable of the next boot.
func variable(flash []byte) (found, error) {
	if len(flash) < volumeLength+2 {
		return found{}, errFlash
	}
	at := int(binary.LittleEndian.Uint16(flash[volumeLength:])) + storeHeader
	for at+varHeader <= len(flash) && binary.LittleEndian.Uint16(flash[at:]) == varStart {
		head := flash[at : at+varHeader]
		name := at + varHeader
		data := name + int(binary.LittleEndian.Uint32(head[36:]))
		end := data + int(binary.LittleEndian.Uint32(head[40:]))
		if end < data || data < name || end > len(flash) {
			return found{}, fmt.Errorf("%w: a variable at %d has no end", errFlash, at)
		}
		is := bytes.Equal(flash[name:data], oneShotName()) && bytes.Equal(head[44:varHeader], oneShotVendor())
		if is && (head[2] == varAdded || head[2] == varDeleting) {
			return found{at, append(bytes.Clone(head[4:8]), flash[data:end]...)}, nil
		}
		at = (end + varAlign - 1) / varAlign * varAlign
	}
	return found{at: at}, nil
}

// choose writes the variable, in efivarfs' format, in place of the existing one. Without a value it only deletes that.
func choose(flash, value []byte) error {
	old, err := variable(flash)
	if err != nil {
		return err
	}
	if old.data != nil {
		flash[old.at+2] &= varDeleted
		if old, err = variable(flash); err != nil {
			return err
		}
	}
	const attributes = 4
	if len(value) < attributes {
		return nil
	}
	name, data := oneShotName(), value[attributes:]
	head := binary.LittleEndian.AppendUint16(nil, varStart)
	head = append(head, varAdded, 0)
	head = append(head, value[:attributes]...)
	head = append(head, make([]byte, 36-len(head))...) // no time, no key
	head = binary.LittleEndian.AppendUint32(head, uint32(len(name)))
	head = binary.LittleEndian.AppendUint32(head, uint32(len(data)))
	head = append(head, oneShotVendor()...)
	head = append(append(head, name...), data...)
	if copy(flash[old.at:], head) < len(head) {
		return fmt.Errorf("%w: it is full", errFlash)
	}
	return nil
}
