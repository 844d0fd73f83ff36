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

// Switch is one context switch of a CPU from one thread to another, of different processes or the same process.
type Switch struct {
	// At is a time of Monotonic.
	At  time.Duration
	CPU int
	// Before and Now are the processes of the two threads, 0 for an idle CPU.
	Before, Now int
}

// Switches records the context switches of CPUs in the kernel's own memory, as perf does. It needs no tracer and
// changes no file. It is for one goroutine. The caller closes it.
type Switches struct{ rings []ring }

// ring is the memory to which the kernel writes the records of one CPU.
type ring struct {
	fd   int
	page []byte
	// head is where the kernel's records end, tail where the unread records begin. Both lie in page.
	head, tail *atomic.Uint64
	size       int // of the records, at the end of page
}

// The layout of that memory and of a record (include/uapi/linux/perf_event.h): a page with the positions of head and
// tail, then the ring. The size of a ring is a power of two between leastRing and mostRing. All rings together have at
// most allRings, unless leastRing for each CPU is more. A record is the header, the other process and thread, and the
// sampled fields: process, thread, time, CPU.
const (
	headAt, tailAt = 1024, 1032
	allRings       = 1 << 24
	leastRing      = 1 << 17
	mostRing       = 1 << 22
	header         = 8
	recordSize     = header + 8 + 8 + 8 + 8

	recordLost   = 2
	recordSwitch = 15
	switchedOut  = 1 << 13
	sampled      = unix.PERF_SAMPLE_TID | unix.PERF_SAMPLE_TIME | unix.PERF_SAMPLE_CPU
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
		fd, err := unix.PerfEventOpen(&attr, -1, cpu, -1, unix.PERF_FLAG_FD_CLOEXEC)
		switch {
		case errors.Is(err, unix.ENOSYS), errors.Is(err, unix.EINVAL):
			err = fmt.Errorf("%w (CONFIG_PERF_EVENTS, Linux 4.3): %w", ErrNotSupported, err)
		case errors.Is(err, unix.EACCES), errors.Is(err, unix.EPERM):
			err = fmt.Errorf("it takes CAP_PERFMON, or CAP_SYS_ADMIN before Linux 5.8: %w", err)
		}
		if err != nil {
			return nil, errors.Join(fmt.Errorf("context switches of CPU %d: perf_event_open: %w", cpu, err), s.Close())
		}
		page, err := unix.Mmap(fd, 0, os.Getpagesize()+size, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
		s.rings = append(s.rings, ring{fd: fd, page: page, size: size})
		if err != nil {
			return nil, errors.Join(fmt.Errorf("context switches of CPU %d: mmap: %w", cpu, err), s.Close())
		}
		r := &s.rings[len(s.rings)-1]
		r.head, r.tail = position(page, headAt), position(page, tailAt)
	}
	return s, nil
}

// position returns a position in the memory that the kernel shares. The kernel aligns it.
func position(page []byte, at int) *atomic.Uint64 { return (*atomic.Uint64)(unsafe.Pointer(&page[at])) }

// Read returns the switches since the last call in order of time, and the number of switches that were lost because a
// ring was full. Recording goes on meanwhile. All switches from before the call are there. Of those during the call,
// only some CPUs have theirs: Read returns the others next time.
func (s *Switches) Read() (all []Switch, lost uint64) {
	for _, r := range s.rings {
		// The kernel writes a record before it moves head, and writes over nothing from tail on (perf_output_put_handle
		// in kernel/events/ring_buffer.c). Atomic accesses have the barriers that this needs.
		head := r.head.Load()
		switches, missed := parseSwitches(r.page[len(r.page)-r.size:], r.tail.Load(), head)
		all, lost = append(all, switches...), lost+missed
		r.tail.Store(head)
	}
	slices.SortStableFunc(all, func(a, b Switch) int { return cmp.Compare(a.At, b.At) })
	return all, lost
}

// parseSwitches parses the records of a ring from tail to head. The size of the ring is a power of two. A switch has
// two records; parseSwitches uses the second.
func parseSwitches(data []byte, tail, head uint64) (all []Switch, lost uint64) {
	mask, word := uint64(len(data)-1), binary.NativeEndian
	var record [recordSize]byte
	for tail < head {
		at := data[tail&mask:] // a header never wraps around
		kind, misc, size := word.Uint32(at), word.Uint16(at[4:]), uint64(word.Uint16(at[6:]))
		copy(record[copy(record[:], at):], data)
		switch {
		case size < header:
			return all, lost + 1 // a record is never shorter than its header
		case kind == recordLost:
			lost += word.Uint64(record[header+8:])
		case kind == recordSwitch && misc&switchedOut == 0 && size == recordSize:
			all = append(all, Switch{
				At: time.Duration(word.Uint64(record[24:])), CPU: int(word.Uint32(record[32:])), //nolint:gosec // since boot
				Before: int(word.Uint32(record[8:])), Now: int(word.Uint32(record[16:])),
			})
		}
		tail += size
	}
	return all, lost
}

// Close stops the recording.
func (s *Switches) Close() error {
	var errs []error
	for _, r := range s.rings {
		if r.page != nil {
			errs = append(errs, unix.Munmap(r.page))
		}
		errs = append(errs, unix.Close(r.fd))
	}
	s.rings = nil
	return errors.Join(errs...)
}
