package kernel

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// ErrOtherPIDs means that this program has process ids of its own (a pid namespace), and the kernel's records of
// wakeups have those of the host.
var ErrOtherPIDs = errors.New("the kernel's wakeups have the process ids of the host, and this program is in a pid namespace of its own")

// tracepoint says how to read the records of a tracepoint: where the thread and the CPU are.
type tracepoint struct {
	kind        EventKind
	id          uint16
	thread, cpu int
}

// wakeupPoints lists the tracepoints of Woken and Moved, and the names of their fields with the CPU. A waking thread
// that goes to another CPU has a record of both.
func wakeupPoints() map[string]tracepointName {
	return map[string]tracepointName{
		"sched_wakeup":       {Woken, "target_cpu"},
		"sched_wakeup_new":   {Woken, "target_cpu"},
		"sched_migrate_task": {Moved, "dest_cpu"},
	}
}

type tracepointName struct {
	kind EventKind
	cpu  string
}

const (
	hostTracefs = "/sys/kernel/tracing"

	pidNamespace = "/proc/self/ns/pid"
	// initialPIDs is the inode of the initial pid namespace (PROC_PID_INIT_INO in include/linux/proc_ns.h).
	initialPIDs = "pid:[4026531836]"
)

// RecordWakeups adds the kinds Woken and Moved to the recording, by the tracepoints sched_wakeup, sched_wakeup_new and
// sched_migrate_task. They write to the rings of the switches, so no buffer of tracefs is made, and nothing is left
// after this process. Only the ids and formats of the tracepoints come from tracefs: from the host's mount, or from a
// mount that no other process sees (Linux 5.2, CAP_SYS_ADMIN). After an error, the recording has switches only, from
// then on.
//
// Without these tracepoints (CONFIG_EVENT_TRACING), the error is ErrNotSupported; without the rights, or on a kernel
// that is locked down, it is fs.ErrPermission; in a pid namespace, it is ErrOtherPIDs.
func (s *Switches) RecordWakeups() error {
	pids, err := os.Readlink(pidNamespace)
	if err != nil {
		return fmt.Errorf("wakeups: %w", err)
	}
	if pids != initialPIDs {
		return fmt.Errorf("%s is %s: %w", pidNamespace, pids, ErrOtherPIDs)
	}
	points, err := tracepoints()
	if err != nil {
		return fmt.Errorf("wakeups: %w", err)
	}
	s.points = points
	for i := range s.rings {
		if err := s.rings[i].record(points); err != nil {
			return errors.Join(err, s.endWakeups())
		}
	}
	return nil
}

// record makes tracepoints write to the ring.
func (r *ring) record(points map[uint16]tracepoint) error {
	for id := range points {
		attr := unix.PerfEventAttr{
			Type: unix.PERF_TYPE_TRACEPOINT, Config: uint64(id), Size: unix.PERF_ATTR_SIZE_VER5, Sample: 1, Sample_type: sampled | unix.PERF_SAMPLE_RAW,
			Bits: unix.PerfBitUseClockID, Clockid: unix.CLOCK_MONOTONIC,
		}
		fd, err := openEvent(&attr, r.cpu)
		if err != nil {
			return fmt.Errorf("wakeups of CPU %d: tracepoint %d: %w", r.cpu, id, err)
		}
		r.wakeups = append(r.wakeups, fd)
		if err := unix.IoctlSetInt(fd, unix.PERF_EVENT_IOC_SET_OUTPUT, r.fd); err != nil {
			return fmt.Errorf("wakeups of CPU %d: tracepoint %d: PERF_EVENT_IOC_SET_OUTPUT: %w", r.cpu, id, err)
		}
	}
	return nil
}

// endWakeups ends the tracepoints. It drops the events up to now, so that no wakeups of some CPUs remain.
func (s *Switches) endWakeups() error {
	var errs []error
	for i := range s.rings {
		for _, fd := range s.rings[i].wakeups {
			errs = append(errs, unix.Close(fd))
		}
		s.rings[i].wakeups = nil
	}
	s.Read()
	s.points = nil
	return errors.Join(errs...)
}

// tracepoints reads the tracepoints of wakeupPoints from tracefs.
func tracepoints() (map[uint16]tracepoint, error) {
	points, err := readTracepoints(os.DirFS(hostTracefs))
	if !errors.Is(err, fs.ErrNotExist) {
		return points, err
	}
	root, err := mountTracefs()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	points, err = readTracepoints(os.DirFS("/proc/self/fd/" + strconv.Itoa(int(root.Fd()))))
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w (CONFIG_EVENT_TRACING): %w", ErrNotSupported, err)
	}
	return points, err
}

// mountTracefs mounts tracefs invisibly to other processes (fsopen(2)). The mount ends with the file.
func mountTracefs() (*os.File, error) {
	root := -1
	draft, err := unix.Fsopen("tracefs", unix.FSOPEN_CLOEXEC)
	if err == nil {
		defer func() { _ = unix.Close(draft) }() // the mount does not need it
		err = unix.FsconfigCreate(draft)
	}
	if err == nil {
		root, err = unix.Fsmount(draft, unix.FSMOUNT_CLOEXEC, 0)
	}
	switch {
	case errors.Is(err, unix.ENODEV), errors.Is(err, unix.ENOSYS):
		return nil, fmt.Errorf("mount tracefs: %w (CONFIG_TRACING, Linux 5.2): %w", ErrNotSupported, err)
	case errors.Is(err, unix.EPERM):
		return nil, fmt.Errorf("mount tracefs: it takes CAP_SYS_ADMIN, and a kernel that is not locked down: %w", err)
	case err != nil:
		return nil, fmt.Errorf("mount tracefs: %w", err)
	}
	return os.NewFile(uintptr(root), "tracefs"), nil
}

func readTracepoints(tracefs fs.FS) (map[uint16]tracepoint, error) {
	points := map[uint16]tracepoint{}
	for name, what := range wakeupPoints() {
		file := "events/sched/" + name + "/format"
		text, err := fs.ReadFile(tracefs, file)
		if err != nil {
			return nil, fmt.Errorf("tracefs: %w", err)
		}
		p, err := parseFormat(string(text), what)
		if err != nil {
			return nil, fmt.Errorf("tracefs: %s: %w", file, err)
		}
		points[p.id] = p
	}
	return points, nil
}

// parseFormat parses the lines "ID: 318" and "field:pid_t pid; offset:24; size:4; signed:1;" of a file format. The
// positions of fields differ between kernels.
func parseFormat(text string, name tracepointName) (tracepoint, error) {
	p := tracepoint{kind: name.kind}
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if id, is := strings.CutPrefix(line, "ID: "); is {
			n, err := strconv.ParseUint(id, 10, 16)
			if err != nil {
				return p, fmt.Errorf("%q: %w", line, ErrMalformed)
			}
			p.id = uint16(n)
		}
		var kind, field string
		var at, size int
		if _, err := fmt.Sscanf(line, "field:%s %s offset:%d; size:%d;", &kind, &field, &at, &size); err != nil || size != 4 || at+size > mostRecord {
			continue
		}
		switch field {
		case "pid;":
			p.thread = at
		case name.cpu + ";":
			p.cpu = at
		}
	}
	if p.id == 0 || p.thread == 0 || p.cpu == 0 {
		return p, fmt.Errorf("no id, pid or %s of four bytes: %w", name.cpu, ErrMalformed)
	}
	return p, nil
}

// parsePoint parses the record of a tracepoint. A tracepoint's own fields begin with its id.
func parsePoint(record []byte, points map[uint16]tracepoint) (e Event, ok bool) {
	word := binary.NativeEndian
	if len(record) < pointAt+2 {
		return e, false
	}
	fields := record[pointAt:]
	p, known := points[word.Uint16(fields)]
	if !known || len(fields) < max(p.thread, p.cpu)+4 {
		return e, false
	}
	return Event{
		Kind: p.kind, At: time.Duration(word.Uint64(record[16:])), //nolint:gosec // since boot
		CPU: int(word.Uint32(fields[p.cpu:])), Thread: int(word.Uint32(fields[p.thread:])),
	}, true
}
