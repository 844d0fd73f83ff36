package kernel

import (
	"bytes"
	"encoding/binary"
	"errors"
	"testing"
)

// TestFirmwareVariable checks that a value written to the firmware's flash can be read, that the last value takes
// effect, and that an empty value deletes the variable. Variables of other programs must stay. TestSystemdBoot shows
// that the firmware and the boot loader read the same format.
func TestFirmwareVariable(t *testing.T) {
	const header = 72
	flash := bytes.Repeat([]byte{0xff}, 1<<12)
	binary.LittleEndian.PutUint16(flash[volumeLength:], header)
	other := append([]byte{0xaa, 0x55, varAdded, 0, 7, 0, 0, 0}, make([]byte, varHeader-8)...)
	binary.LittleEndian.PutUint32(other[36:], 2) // a name and one byte
	binary.LittleEndian.PutUint32(other[40:], 1)
	other = append(other, 'a', 0, 1)
	copy(flash[header+storeHeader:], other)
	for _, value := range []string{"\x07\x00\x00\x00~berth", "", "\x07\x00\x00\x00a", "\x07\x00\x00\x00b", ""} {
		if err := choose(flash, []byte(value)); err != nil {
			t.Fatal(err)
		}
		if at, err := variable(flash); err != nil || string(at.data) != value {
			t.Errorf("%q, %v, want %q", at.data, err, value)
		}
	}
	if !bytes.Equal(flash[header+storeHeader:][:len(other)], other) {
		t.Error("the other variable is another one")
	}
	if err := choose(flash[:header+storeHeader+120], []byte("\x07\x00\x00\x00too long for what is left of it")); !errors.Is(err, errFlash) {
		t.Error(err)
	}
}
