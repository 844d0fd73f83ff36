package pages

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// records is a kernel file as fs/seq_file.c renders it. A read gets the remainder of the last record and then at least
// one more record, while they are shorter than the requested size.
type records struct {
	fs.File
	all     []string
	next    int
	pending string
	most    int // number of records that one read rendered
}

func (r *records) Read(buf []byte) (int, error) {
	n := copy(buf, r.pending)
	r.pending = r.pending[n:]
	if r.pending != "" {
		return n, nil
	}
	rendered := 0
	for r.next < len(r.all) && (rendered == 0 || len(r.pending) < len(buf)-n) {
		r.pending += r.all[r.next]
		r.next++
		rendered++
	}
	r.most = max(r.most, rendered)
	more := copy(buf[n:], r.pending)
	r.pending = r.pending[more:]
	if n += more; n == 0 && rendered == 0 {
		return 0, io.EOF
	}
	return n, nil
}

func (r *records) Close() error { return nil }

// one is a kernel with one file, and one answer to calls.
type one struct {
	Kernel
	file  fs.File
	start uint64
	move  func(addresses []uint64, nodes, status []int32) (int, error)
}

func (k *one) Open(string) (fs.File, error) { return k.file, nil }
func (k *one) ReadFile(string) ([]byte, error) {
	return fmt.Appendf(nil, "1 (a) S 1 1 1 0 -1 0 1 0 0 0 0 0 0 0 20 0 1 0 %d 1", k.start), nil
}

func (k *one) MovePages(_ int, addresses []uint64, nodes, status []int32, _ int) (int, error) {
	return k.move(addresses, nodes, status)
}

// TestPoliciesHoldOneMapping reads the policies of many mappings. No read may make the kernel render two mappings, or a
// mapping that is too large.
func TestPoliciesHoldOneMapping(t *testing.T) {
	t.Parallel()
	file := &records{}
	var mappings []Mapping
	for i := range 100 {
		m := Mapping{Start: uint64(i+1) << 40, Kind: Private}
		m.End = m.Start + Size
		if i == 60 {
			m.End = m.Start + LongestHeld + Size
		}
		mappings = append(mappings, m)
		policy := []string{"default", "bind:1", "prefer (many):0-1 file=/a heap anon=1 dirty=1 N0=1 kernelpagesize_kB=4"}[i%3]
		file.all = append(file.all, fmt.Sprintf("%08x %s\n", m.Start, policy))
	}
	p := &Process{PID: 1, tid: 1, kernel: &one{file: file}}
	q, err := p.Policies(mappings)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mappings {
		if i%2 == 1 {
			continue // A walk asks only for mappings with something to move.
		}
		got, err := q.At(m.Start)
		if err != nil {
			t.Fatal(err)
		}
		if want := (i%3 != 0 && i < 59); got.Own != want || got.Assumed != (i >= 59) {
			t.Errorf("mapping %d: %+v", i, got)
		}
	}
	if file.most > 1 {
		t.Errorf("one read rendered %d mappings", file.most)
	}
	if file.next > 60 {
		t.Errorf("%d mappings were rendered, the large one among them", file.next)
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	file := &records{}
	var mappings []Mapping
	for i := range 10 {
		m := Mapping{Start: uint64(i+1) << 40, Kind: Private}
		m.End = m.Start + Size
		if i == 8 {
			m.End = m.Start + LongestHeld + Size
		}
		mappings = append(mappings, m)
		kib := 2048 * (i % 2)
		file.all = append(file.all, fmt.Sprintf("%08x-%08x rw-p 00000000 00:00 0 \n%sAnonHugePages: %d kB\nShmemPmdMapped: 0 kB\n",
			m.Start, m.End, strings.Repeat("Rss:   4 kB\n", 50), kib))
	}
	b, err := (&Process{PID: 1, tid: 1, kernel: &one{file: file}}).Blocks(mappings)
	if err != nil {
		t.Fatal(err)
	}
	for i, m := range mappings {
		if got, want := b.In(m.Start), i%2 == 1 || i >= 7; got != want {
			t.Errorf("mapping %d: %t", i, got)
		}
	}
	if file.most > 1 || file.next > 8 {
		t.Errorf("one read rendered %d mappings, all %d", file.most, file.next)
	}
}

// TestMoveAsksAgain checks that statuses are used only where the kernel wrote them.
func TestMoveAsksAgain(t *testing.T) {
	t.Parallel()
	k := &one{start: 7}
	p := &Process{PID: 1, Start: 7, begun: 7, tid: 1, kernel: k}
	list, fates := []uint64{1 << 12, 2 << 12, 3 << 12, 4 << 12, 5 << 12}, make([]Fate, 5)
	asked := 0
	k.move = func(addresses []uint64, nodes, status []int32) (int, error) {
		if nodes != nil {
			status[0], status[1] = -int32(syscall.EACCES), -int32(syscall.ENOENT)
			return 2, nil // of the other three, without saying which
		}
		asked = len(addresses)
		copy(status, []int32{0, 1, -int32(syscall.ENOENT)})
		return 0, nil
	}
	var v Mover
	if err := v.Move(p, list, 0, false, fates); err != nil {
		t.Fatal(err)
	}
	if want := []Fate{Held, Gone, There, Stayed, Gone}; !slices.Equal(fates, want) || asked != 3 {
		t.Errorf("%v, asked for %d", fates, asked)
	}
	k.move = func([]uint64, []int32, []int32) (int, error) {
		k.start = 8 // The id now belongs to another process.
		return 0, nil
	}
	if err := v.Move(p, list, 0, false, fates); err == nil || fates[2] != Gone {
		t.Errorf("%v, %v", fates, err)
	}
}

// TestFills checks which lines of numa_maps say that each page of a mapping is present, anonymous and unshared.
func TestFills(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]bool{
		"10000 default anon=4 dirty=4 N0=4 kernelpagesize_kB=4":                 true,
		"10000 default anon=4 dirty=4 N0=1 N1=3 kernelpagesize_kB=4":            true,
		"10000 bind:0 heap anon=4 dirty=4 active=1 N0=4 kernelpagesize_kB=4":    true,
		"10000 default anon=4 dirty=4 swapcache=2 N0=4 kernelpagesize_kB=4":     true, // a copy in swap too
		"10000 default anon=4 dirty=4 mapmax=2 N0=4 kernelpagesize_kB=4":        false,
		"10000 default anon=3 dirty=3 N0=3 kernelpagesize_kB=4":                 false, // in swap, absent or moving
		"10000 default anon=5 dirty=5 N0=5 kernelpagesize_kB=4":                 false, // it grew
		"10000 default anon=3 mapped=4 N0=4 kernelpagesize_kB=4":                false,
		"10000 default file=/x anon=4 dirty=4 N0=4 kernelpagesize_kB=4":         false,
		"10000 default file=/x huge anon=1 dirty=1 N0=1 kernelpagesize_kB=2048": false,
		"10000 default huge anon=4 dirty=4 N0=4 kernelpagesize_kB=4":            false,
		"10000 default anon=1 dirty=1 N0=1 kernelpagesize_kB=16":                false,
		"11000 default anon=4 dirty=4 N0=4 kernelpagesize_kB=4":                 false,
		"10000 default": false,
	} {
		_, policy, err := parsePolicy(line)
		if err != nil {
			t.Fatal(err)
		}
		m := Mapping{Start: 0x10000, End: 0x10000 + 4*Size, Kind: Private}
		if got := policy.Fills(&m); got != want {
			t.Errorf("%q: %t", line, got)
		}
		for _, kind := range []Kind{File, Shared, Huge, Reserved, Device} {
			if m.Kind = kind; policy.Fills(&m) {
				t.Errorf("%q: a mapping of kind %d", line, kind)
			}
		}
	}
}
