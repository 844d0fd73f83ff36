package kernel

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// EventKind is the kind of an Event.
type EventKind uint8

// The kinds of events.
const (
	// Switched is a context switch of a CPU, from one thread to another of any process.
	Switched EventKind = iota
	// Woken means that a thread that slept, or is new, became ready to run.
	Woken
	// Moved means that a thread that does not run went to another CPU.
	Moved
)

// Task is a thread and its process. Both are 0 for an idle CPU, and may be math.MaxUint32 for a thread that ended.
type Task struct{ Process, Thread int }

// Event is one event of the kernel's scheduler.
type Event struct {
	Kind EventKind
	// At is a time of Monotonic.
	At time.Duration
	// CPU is the CPU that switched, or the CPU on which the thread then waits.
	CPU int
	// Before and Now are the threads of a switch. Ready says that Before could have run on.
	Before, Now Task
	Ready       bool
	// Thread is the thread that was woken or moved.
	Thread int
}

// Switches records the context switches of CPUs, and on request the wakeups, in memory of this process, as perf does. It
// changes no file, and the kernel ends it with the process. It is for one goroutine. The caller closes it.
type Switches struct {
	rings []ring
	// points are the tracepoints of RecordWakeups, by their ids.
	points map[uint16]tracepoint
}

// ring is the memory to which the kernel writes the records of one CPU.
type ring struct {
	cpu, fd int
	// wakeups are the tracepoints that write to this ring, too.
	wakeups []int
	page    []byte
	// head is where the kernel's records end, tail where the unread records begin. Both lie in page.
	head, tail *atomic.Uint64
	size       int // of the records, at the end of page
}

// The layout of that memory and of a record (include/uapi/linux/perf_event.h): a page with the positions of head and
// tail, then the ring. The size of a ring is a power of two between leastRing and mostRing. All rings together have at
// most allRings, unless leastRing for each CPU is more. A record of a switch is the header, the other process and
// thread, and the sampled fields: process, thread, time, CPU. A record of a tracepoint is the header, the same fields,
// the size of its own fields, and these fields.
const (
	headAt, tailAt = 1024, 1032
	allRings       = 1 << 24
	leastRing      = 1 << 17
	mostRing       = 1 << 22
	header         = 8
	recordSize     = header + 8 + 8 + 8 + 8
	pointAt        = header + 8 + 8 + 8 + 4
	mostRecord     = 256

	recordLost     = 2
	recordThrottle = 5
	recordPoint    = 9
	recordSwitch   = 15
	switchedOut    = 1 << 13
	stillReady     = 1 << 14 // PERF_RECORD_MISC_SWITCH_OUT_PREEMPT, Linux 4.17
	sampled        = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU
)

// RecordSwitches starts the recording. On a kernel without these records (CONFIG_PERF_EVENTS, Linux 4.3) the error is
// ErrNotSupported. Recording all processes needs CAP_PERFMON, or CAP_SYS_ADMIN before Linux 5.8; without it the error
// is fs.ErrPermission.
func RecordSwitches(cpus cpuset.Set) (*Switches, error) {
	attr := unix.PerfEventAttr{
		Type: unix.PERF_TYPE_SOFTWARE, Config: unix.PERF_COUNT_SW_DUMMY, Size: unix.PERF_ATTR_SIZE_VER5, Sample_type: sampled,
		Bits: unix.PerfBitSampleIDAll | unix.PerfBitContextSwitch | unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
	}
	size := mostRing
	for size > leastRing && size*cpus.Size() > allRings {
		size /= 2
	}
	s := &Switches{}
	for cpu := range cpus.All() {
		fd, err := openEvent(&attr, cpu)
		if err != nil {
			return nil, errors.Join(fmt.Errorf("context switches of CPU %d: %w", cpu, err), s.Close())
		}
		page, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		s.rings = append(s.rings, ring{cpu: cpu, fd: fd, page: page, size: size})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("context switches of CPU %d: mmap: %w", cpu, err), s.Close())
		}
		r := &s.rings[len(s.rings)-1]
		r.head, r.tail = position(page, headAt), position(page, tailAt)
	}
	return s, nil
}

// openEvent opens a perf event of all processes on one CPU.
func openEvent(attr *unix.PerfEventAttr, cpu int) (int, error) {
	fd, err := unix.PerfEventOpen(attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
	switch {
	case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
		err = fmt.Errorf("%w (CONFIG_PERF_EVENTS, Linux 4.3): %w", ErrNotSupported, err)
	case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
		err = fmt.Errorf("it takes CAP_PERFMON, or CAP_SYS_ADMIN before Linux 5.8: %w", err)
	}
	if err != nil {
		return -1, fmt.Errorf("perf_event_open: %w", err)
	}
	return fd, nil
}

// position returns a position in the memory that the kernel shares. The kernel aligns it.
func position(page []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&page[at])) }

// Read returns the events since the last call in order of time, and the least number of events that were lost because a
// ring was full. Recording goes on meanwhile. All events from before the call are there. Of those during the call, only
// some CPUs have theirs: Read returns the others next time.
func (s *Switches) Read() (all []Event, lost uint64) {
	for _, r := range s.rings {
		// The kernel writes a record before it moves head, and writes over nothing from tail on (perf_output_put_handle
		// in kernel/events/ring_buffer.c). Atomic accesses have the barriers that this needs.
		head, tail := r.head.Load(), r.tail.Load()
		if head-tail > uint64(r.size-mostRecord) { // the kernel reports a loss only with its next record
			lost++
		}
		events, missed := parseEvents(r.page[len(r.page)-r.size:], tail, head, s.points)
		all, lost = append(all, events...), lost+missed
		r.tail.Store(head)
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all, lost
}

// parseEvents parses the records of a ring from tail to head. The size of the ring is a power of two. A switch has two
// records; parseEvents uses the first, which says whether the thread could have run on.
func parseEvents(data []byte, tail, head uint64, points map[uint16]tracepoint) (all []Event, lost uint64) {
	mask, word := uint64(len(data)-1), binary.NativeEndian
	var buffer [mostRecord]byte
	for tail < head {
		at := data[tail&mask:] // a header never wraps around
		kind, misc, size := word.Uint32(at), word.Uint16(at[4:]), uint64(word.Uint16(at[6:]))
		if size < header || size > mostRecord {
			return all, lost + 1 // none of the kinds that were asked for
		}
		record := buffer[:size]
		copy(record[copy(record, at):], data)
		switch {
		case kind == recordLost:
			lost += word.Uint64(record[header+8:])
		case kind == recordThrottle:
			lost++
		case kind == recordSwitch && misc&switchedOut != 0 && size == recordSize:
			all = append(all, Event{
				Kind: Switched, At: time.Duration(word.Uint64(record[24:])), CPU: int(word.Uint32(record[32:])), //nolint:gosec // since boot
				Before: taskAt(record[16:]), Now: taskAt(record[8:]), Ready: misc&stillReady != 0,
			})
		case kind == recordPoint:
			e, ok := parsePoint(record, points)
			if !ok {
				lost++
				break
			}
			all = append(all, e)
		}
		tail += size
	}
	return all, lost
}

func taskAt(record []byte) Task {
	return Task{Process: int(binary.NativeEndian.Uint32(record)), Thread: int(binary.NativeEndian.Uint32(record[4:]))}
}

// Close stops the recording.
func (s *Switches) Close() error {
	var errs []error
	for _, r := range s.rings {
		if r.page != nil {
			errs = append(errs, unix.Munmap(r.page))
		}
		for _, fd := range append(r.wakeups, r.fd) {
			errs = append(errs, unix.Close(fd))
		}
	}
	s.rings = nil
	return errors.Join(errs...)
}
