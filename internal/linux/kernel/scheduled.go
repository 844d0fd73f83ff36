package kernel

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Scheduled is the scheduling of a thread, as the kernel reports it.
type Scheduled struct {
	Class Class
	// Priority is the priority of a real-time class, 1 to 99.
	Priority int
	// Nice applies in an ordinary class, and is only remembered in other classes.
	Nice int
	// Slice is how long the thread runs before a thread of equal rank. A slice that was set reads like the default. It
	// is 0 for a real-time thread, and before Linux 6.12. Writing 0 sets no slice.
	Slice time.Duration
	// ResetOnFork is true if forked threads get an ordinary class.
	ResetOnFork bool
}

// HasSlice reports whether threads of the class run in slices that can be set.
func (c Class) HasSlice() bool { return c == Other || c == Batch }

// ClassNamed returns the class with the given name, as Class.String writes it.
func ClassNamed(word string) (Class, bool) {
	for _, c := range []Class{Other, FIFO, RR, Batch, Idle} {
		if c.String() == word {
			return c, true
		}
	}
	return 0, false
}

// ThreadScheduled returns the scheduling of a thread, or of the calling thread for 0 (sched_getattr(2)). The error is
// the kernel's: ESRCH for a thread that has ended.
func ThreadScheduled(tid int) (Scheduled, error) {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return Scheduled{}, fmt.Errorf("how thread %d is scheduled: %w", tid, err)
	}
	nice, err := unix.Getpriority(unix.PRIO_PROCESS, tid)
	if err != nil {
		return Scheduled{}, fmt.Errorf("nice value of thread %d: %w", tid, err)
	}
	const lowest = 20 // the system call returns 40 to 1 for -20 to 19
	s := Scheduled{
		Class: Class(attr.Policy), Priority: int(attr.Priority), Nice: lowest - nice, ResetOnFork: attr.Flags&unix.SCHED_FLAG_RESET_ON_FORK != 0,
	}
	if s.Class.HasSlice() || s.Class == Idle {
		s.Slice = time.Duration(attr.Runtime) //nolint:gosec // at most 100ms
	}
	return s, nil
}

// ErrStarved means that a thread of this process did not run in time.
var ErrStarved = errors.New("a new thread does not run: other threads have all CPUs")

// answersIn is how long a new thread may take to start running.
const answersIn = time.Second

// DefaultThreadSlice returns the slice of a thread for which no slice was set, or 0 if the kernel has no slices of
// single threads. It asks about a thread made for this purpose, which sleeps in the meantime and then ends. That thread
// inherits a real-time policy of the caller, which is restored before the thread runs again. With an ordinary policy it
// might never run. If the thread does not run within a second the error is ErrStarved, and the thread ends once it
// runs.
func DefaultThreadSlice() (time.Duration, error) {
	s, err := onSleeper(answersIn, OnThread, func(late context.Context, tid int) (Scheduled, error) {
		if err := sleeps(late, tid, threadState); err != nil {
			return Scheduled{}, err
		}
		return withoutSlice(tid)
	})
	if err != nil {
		return 0, fmt.Errorf("slice of a thread without one of its own: %w", err)
	}
	return s.Slice, nil
}

// onSleeper makes a thread, and calls ask while that thread goes to sleep.
func onSleeper[T any](within time.Duration, onThread func(func()), ask func(late context.Context, tid int) (T, error)) (s T, err error) {
	made, answered, ended := make(chan int, 1), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		onThread(func() {
			made <- unix.Gettid()
			<-answered
		})
	}()
	late, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	select {
	case tid := <-made:
		s, err = ask(late, tid)
	case <-late.Done():
		select {
		case tid := <-made: // the whole process had stopped in the meantime
			s, err = ask(late, tid)
		default:
			err = ErrStarved
		}
	}
	close(answered)
	if err != nil {
		return s, err // the thread may never run
	}
	select {
	case <-ended:
	case <-late.Done(): // the thread's purpose is fulfilled
	}
	return s, nil
}

// sleeps waits until a thread sleeps. A running thread may hold a lock of the Go runtime, and would hold it forever
// where an ordinary thread does not run.
func sleeps(late context.Context, tid int, stateOf func(tid int) (string, error)) error {
	const pause = 50 * time.Microsecond
	for {
		over := late.Err() != nil // read before the state: the last state read is valid even after the deadline
		switch state, err := stateOf(tid); {
		case err != nil:
			return err
		case state == sleeping:
			return nil
		case over:
			return ErrStarved
		}
		rest, cancel := context.WithTimeout(late, pause)
		<-rest.Done()
		cancel()
	}
}

// withoutSlice returns the scheduling of a thread once it has the default class and no slice. It then restores a
// real-time policy.
func withoutSlice(tid int) (Scheduled, error) {
	had, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return Scheduled{}, fmt.Errorf("sched_getattr: %w", err)
	}
	if err := unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Nice: had.Nice}, 0); err != nil {
		return Scheduled{}, fmt.Errorf("sched_setattr: %w", err)
	}
	s, err := ThreadScheduled(tid)
	if c := Class(had.Policy); c == FIFO || c == RR {
		if back := unix.SchedSetAttr(tid, had, 0); back != nil {
			err = errors.Join(err, fmt.Errorf("sched_setattr: %w", back))
		}
	}
	return s, err
}

// ThreadProcess returns the process of a thread. The error is fs.ErrNotExist for a thread that has ended.
func ThreadProcess(tid int) (int, error) {
	pid, err := statusProcess(tid, "Tgid")
	if err != nil {
		return 0, fmt.Errorf("process of thread %d: %w", tid, err)
	}
	return pid, nil
}

// ThreadParent returns the process that started the process of a thread, or the process that adopted it since. It is 0
// for a parent outside this pid namespace. The error is fs.ErrNotExist for a thread that has ended.
func ThreadParent(tid int) (int, error) {
	pid, err := statusProcess(tid, "PPid")
	if err != nil {
		return 0, fmt.Errorf("parent of thread %d: %w", tid, err)
	}
	return pid, nil
}

// statusProcess returns a process that /proc/<tid>/status names.
func statusProcess(tid int, field string) (int, error) {
	name := fmt.Sprintf("/proc/%d/status", tid)
	text, err := statusField(name, field)
	if err != nil {
		return 0, err
	}
	pid, err := strconv.Atoi(text)
	if err != nil {
		return 0, fmt.Errorf("%s: %s %q: %w", name, field, text, ErrMalformed)
	}
	return pid, nil
}
