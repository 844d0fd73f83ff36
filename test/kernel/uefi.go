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

// firmware is UEFI firmware of a machine.
type firmware struct {
	code string
	// store is the flash in which the firmware keeps its variables.
	store string
}

// newFirmware takes it out of its package, which is not installed, and keeps the variables in dir.
func newFirmware(ctx context.Context, dir string, log io.Writer) (*firmware, error) {
	code, err := unpacked(ctx, log, "usr/share/OVMF/OVMF_CODE_4M.fd", func(string) error { return nil }, "ovmf")
	if err != nil {
		return nil, err
	}
	f := &firmware{code: code, store: filepath.Join(dir, "variables")}
	return f, copyFile(filepath.Join(filepath.Dir(code), "OVMF_VARS_4M.fd"), f.store)
}

// drives are the firmware's, and its system partition: a directory that it only reads.
func (f *firmware) drives(partition string) []string {
	return []string{
		"-drive", "if=pflash,format=raw,unit=0,readonly=on,file=" + f.code,
		"-drive", "if=pflash,format=raw,unit=1,file=" + f.store,
		"-drive", "file=fat:" + partition + ",format=raw,if=none,id=system,readonly=on", "-device", "virtio-blk-pci,drive=system",
	}
}

// removable is what firmware starts of a disk that it has no entry for.
const removable = "EFI/BOOT/BOOTX64.EFI"

// copyFile copies a file, and makes the directory for it.
func copyFile(from, to string) error {
	text, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, text, 0o600))
}

// UEFI is a machine with UEFI firmware, which starts systemd-boot.
type UEFI struct {
	// Tree is the root of its files. The directory efi in it is the system partition, and
	// OneShot in it what the firmware has for the entry of the next boot.
	Tree string

	dir string
	*firmware
}

// OneShot is the file of the variable in which systemd-boot looks for the entry of one boot.
const OneShot = "sys/firmware/efi/efivars/LoaderEntryOneShot-4a67b082-0a4c-41cf-b6c7-440b29bb8c4f"

// NewUEFI takes firmware and loader out of their packages, which are not installed, and works in dir.
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

// Boot gives the firmware the variable, boots once, and takes over what the firmware has of it then.
// It returns what firmware, loader and kernel said on the console.
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

// The layout of the firmware's variables in its flash (MdeModulePkg/Include/Guid/VariableFormat.h
// of EDK II): a header of the volume with its length, one of the store, and then each variable
// with a header of its own, up to what was erased and never written.
const (
	volumeLength = 48 // where the volume's header has its length
	storeHeader  = 28
	varHeader    = 60
	varStart     = 0x55aa
	varAdded     = 0x3f // a state; each bit that goes means something
	varDeleting  = 0x3e
	varDeleted   = 0xfd
	varAlign     = 4
)

// found is where a variable is, with its attributes and data, as efivarfs shows them; without data
// it is where the next one goes.
type found struct {
	at   int
	data []byte
}

// oneShotName is the variable's name, and after it oneShotVendor is whose it is.
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

// errFlash is a flash without a store of variables.
var errFlash = errors.New("no store of variables in the flash")

// variable looks for the variable of the next boot.
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

// choose writes the variable, as efivarfs has it, in place of the one that is there; nothing deletes it.
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
