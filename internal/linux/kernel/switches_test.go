package kernel

import (
	"encoding/binary"
	"errors"
	"io/fs"
	"os"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// put writes a record that begins at a place in a ring, and returns the place of the next record.
func put(data []byte, at uint64, kind uint32, misc uint16, words ...uint32) uint64 {
	size := uint16(header)
	for range words {
		size += 4
	}
	record := binary.NativeEndian.AppendUint32(nil, kind)
	record = binary.NativeEndian.AppendUint16(record, misc)
	record = binary.NativeEndian.AppendUint16(record, size)
	for _, w := range words {
		record = binary.NativeEndian.AppendUint32(record, w)
	}
	for i, b := range record {
		data[(at+uint64(i))%uint64(len(data))] = b
	}
	return at + uint64(len(record))
}

// TestParseEvents checks that one of the two records of a switch counts, even if the end of the ring splits it, that
// the records of tracepoints are read by their formats, and that lost records are reported. An impossible record ends
// the reading.
func TestParseEvents(t *testing.T) {
	points := map[uint16]tracepoint{300: {kind: Woken, id: 300, thread: 8, cpu: 16}, 301: {kind: Moved, id: 301, thread: 4, cpu: 8}}
	data := make([]byte, 512)
	const begin = 1000*512 + 480
	at := put(data, begin, recordSwitch, switchedOut|stillReady, 5, 6, 7, 8, 11, 0, 1, 0) // split
	at = put(data, at, recordSwitch, 0, 7, 8, 5, 6, 12, 0, 1, 0)
	at = put(data, at, recordLost, 0, 0, 0, 3, 0)
	at = put(data, at, 99, 0, 0, 0)
	at = put(data, at, recordPoint, 0, 5, 6, 13, 0, 1, 0, 20, 300, 0, 9, 0, 3)
	at = put(data, at, recordPoint, 0, 5, 6, 14, 0, 1, 0, 12, 301, 9, 2)
	at = put(data, at, recordPoint, 0, 5, 6, 14, 0, 1, 0, 12, 302, 9, 2) // a tracepoint that nobody asked for
	at = put(data, at, recordPoint, 0, 5, 6, 14, 0, 1, 0, 12, 300, 9, 2) // shorter than its format
	at = put(data, at, recordThrottle, 0, 15, 0)
	at = put(data, at, recordSwitch, switchedOut, 0, 0, 5, 6, 16, 0, 1, 0)
	all, lost := parseEvents(data, begin, at, points)
	want := []Event{
		{Kind: Switched, At: 11, CPU: 1, Before: Task{7, 8}, Now: Task{5, 6}, Ready: true},
		{Kind: Woken, At: 13, CPU: 3, Thread: 9},
		{Kind: Moved, At: 14, CPU: 2, Thread: 9},
		{Kind: Switched, At: 16, CPU: 1, Before: Task{5, 6}},
	}
	if diff := cmp.Diff(want, all); diff != "" || lost != 3+3 {
		t.Errorf("%d lost, (-want +got):\n%s", lost, diff)
	}
	if all, lost := parseEvents(make([]byte, 256), 0, 128, points); len(all) != 0 || lost != 1 {
		t.Errorf("no records: %v, %d lost", all, lost)
	}
}

// TestFullRing checks that a ring without room for another record counts as a loss: the kernel reports it later.
func TestFullRing(t *testing.T) {
	for used, want := range map[uint64]uint64{leastRing - mostRecord: 0, leastRing - mostRecord + 8: 1} {
		data := make([]byte, leastRing)
		at := uint64(0)
		for at < used {
			at = put(data, at, 99, 0)
		}
		head, tail := &atomic.Uint64{}, &atomic.Uint64{}
		head.Store(used)
		s := Switches{rings: []ring{{page: data, size: leastRing, head: head, tail: tail}}}
		if _, lost := s.Read(); lost != want || tail.Load() != used {
			t.Errorf("%d of %d bytes used: %d lost, read up to %d; want %d", used, leastRing, lost, tail.Load(), want)
		}
	}
}

// TestLiveSwitches checks that the kernel records in order that this process ran on each CPU, and continues after a
// reading.
func TestLiveSwitches(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("the context switches of all processes need root; runs in the VM: make test")
	}
	cpus, err := OwnGroupCPUs()
	if err != nil {
		t.Fatal(err)
	}
	s, err := RecordSwitches(cpus)
	if errors.Is(err, ErrNotSupported) {
		t.Skipf("%v; runs on the host: make test", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	for round := range 2 {
		before := Monotonic()
		for range 20 {
			time.Sleep(time.Millisecond)
		}
		all, lost := s.Read()
		if lost > 0 {
			t.Fatalf("%d lost", lost)
		}
		mine := slices.IndexFunc(all, func(one Event) bool {
			return one.Now.Process == os.Getpid() && one.At >= before && cpus.Contains(one.CPU)
		})
		if mine < 0 || !slices.IsSortedFunc(all, func(a, b Event) int { return int(a.At - b.At) }) {
			t.Errorf("round %d: %d switches, the first of this process is %d", round, len(all), mine)
		}
	}
	if _, err := RecordSwitches(cpuset.Set{}.Add(cpuset.Max - 1)); err == nil || errors.Is(err, fs.ErrPermission) {
		t.Errorf("a CPU that is not there: %v", err)
	}
}
