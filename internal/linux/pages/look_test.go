package pages

import (
	"encoding/binary"
	"errors"
	"io"
	"io/fs"
	"slices"
	"syscall"
	"testing"
)

// entries is a pagemap.
type entries struct {
	fs.File
	all []uint64
}

func (entries) Close() error { return nil }

func (e entries) ReadAt(buf []byte, _ int64) (int, error) {
	for i, v := range e.all {
		binary.NativeEndian.PutUint64(buf[i*entrySize:], v)
	}
	return len(buf), io.EOF
}

// TestGuardsAreNoSwap checks that a guard region (Linux 6.13), which has the swap bit, does not count as a swapped
// page.
func TestGuardsAreNoSwap(t *testing.T) {
	t.Parallel()
	k := &one{file: entries{all: []uint64{swapped, swapped | guard}}, move: func([]uint64, []int32, []int32) (int, error) { return 0, nil }}
	p, s := &Process{PID: 1, tid: 1, kernel: k}, Seen{}
	if _, err := p.Look(Mapping{Start: 0, End: 2 * Size, Kind: Private}, 0, Size, &s); err != nil || s.Swapped != 1 {
		t.Errorf("%+v, %v", s, err)
	}
}

// TestErrorsByCall checks that the meaning of an error number depends on the call that returned it.
func TestErrorsByCall(t *testing.T) {
	t.Parallel()
	p := &Process{PID: 1, Start: 7, begun: 7, tid: 1, kernel: &one{start: 7}}
	for _, err := range []error{syscall.EINVAL, fs.ErrNotExist} {
		if got := p.classified(err); errors.Is(got, ErrExited) || !errors.Is(got, err) {
			t.Errorf("a file of a process that lives: %v", got)
		}
	}
	for err, want := range map[error]error{syscall.EINVAL: ErrExited, syscall.EPERM: ErrRights, syscall.EACCES: ErrRights, syscall.ENOMEM: ErrNoMemory} {
		if got := called(err); !errors.Is(got, want) {
			t.Errorf("%v: %v, want %v", err, got, want)
		}
	}
	if errors.Is(called(syscall.ENOSYS), ErrRights) {
		t.Error("a kernel without the call lacks no right")
	}
}

// TestReservedIsNotTooLarge reads policies of mappings behind address space that is only reserved.
func TestReservedIsNotTooLarge(t *testing.T) {
	t.Parallel()
	file := &records{all: []string{"100000 default\n", "200000 default\n", "900000000000 bind:1\n"}}
	p := &Process{PID: 1, tid: 1, kernel: &one{file: file}}
	q, err := p.Policies([]Mapping{
		{Start: 0x100000, End: 0x101000, Kind: Private},
		{Start: 0x200000, End: 0x800000000000, Kind: Reserved},
		{Start: 0x900000000000, End: 0x900000001000, Kind: Huge, PageSize: 1 << 30},
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, err := q.At(0x900000000000); err != nil || !got.Own || got.Assumed {
		t.Errorf("%+v, %v", got, err)
	}
	if n := pageSize("rw,relatime,pagesize=1024M"); n != 1<<30 {
		t.Error(n)
	}
}

// TestAssumed checks that stretches of a mapping that is full are all of its addresses, each once.
func TestAssumed(t *testing.T) {
	t.Parallel()
	const stretch = Stretch / Size
	for _, size := range []uint64{Size, Stretch - Size, Stretch, 3*Stretch + HugeSize + Size} {
		for _, most := range []int{0, 1, stretch, stretch + 1, 2*stretch + 700, 100 * stretch} {
			m := Mapping{Start: 0x7f0000000000 + 3*Size, Kind: Private}
			m.End = m.Start + size
			s, want := Seen{Swapped: 1, Nodes: []int32{1}, Others: []bool{true, true}}, m.Start
			for from := m.Start; from < m.End; {
				next := s.Assume(&m, from, most)
				if next <= from || next > m.End || next < m.End && next%HugeSize != 0 || next-from > uint64(max(stretch, most))*Size {
					t.Fatalf("%x to %x of %+v", from, next, m)
				}
				if len(s.Others) != len(s.Addresses) || slices.Contains(s.Others, true) || len(s.Nodes) > 0 || s.Swapped > 0 {
					t.Fatalf("%+v", s)
				}
				for _, a := range s.Addresses {
					if a != want {
						t.Fatalf("%x, want %x", a, want)
					}
					want += Size
				}
				from = next
			}
			if want != m.End {
				t.Errorf("%x of %+v", want, m)
			}
		}
	}
}
