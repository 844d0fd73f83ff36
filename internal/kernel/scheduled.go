package kernel

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// Scheduled is what the scheduler makes of a thread.
type Scheduled struct {
	Class Class
	// Priority is that of a real-time class, 1 to 99.
	Priority int
	// Nice is in force in an ordinary class, and kept in the others.
	Nice int
	// Slice is how long the thread runs before an equal one. One that was set reads like the
	// default. It is 0 of a real-time thread, and before Linux 6.12; to write 0 is to set none.
	Slice time.Duration
	// ResetOnFork says that what the thread forks has an ordinary class.
	ResetOnFork bool
}

// HasSlice says whether threads of a class run in slices that can be set.
func (c Class) HasSlice() bool { return c == Other || c == Batch }

// ClassNamed returns the class of a word, as Class.String writes it.
func ClassNamed(word string) (Class, bool) {
	for _, c := range []Class{Other, FIFO, RR, Batch, Idle} {
		if c.String() == word {
			return c, true
		}
	}
	return 0, false
}

// ThreadScheduled returns what the scheduler makes of a thread, of the calling one for 0
// (sched_getattr(2)). The error is the kernel's, ESRCH for a thread that is gone.
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

// ErrStarved says that a thread of this process did not run in time.
var ErrStarved = errors.New("a new thread does not run: other threads have all CPUs")

// answersIn is how long a new thread may take until it runs.
const answersIn = time.Second

// DefaultThreadSlice returns the slice of a thread for which none was set, 0 where the kernel has no
// slices of single threads. It asks for that on a thread of its own, which sleeps meanwhile and then ends: of a caller
// with a real-time policy that thread has it, too, and has it back before it runs. Without it, it might never run: after
// a second the error is ErrStarved, and the thread ends once it runs.
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

// onSleeper asks something of a thread that is made for it, and that goes to sleep meanwhile.
func onSleeper(within time.Duration, onThread func(func()), ask func(late context.Context, tid int) (Scheduled, error)) (s Scheduled, err error) {
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
		case tid := <-made: // all of this process stood still meanwhile
			s, err = ask(late, tid)
		default:
			err = ErrStarved
		}
	}
	close(answered)
	if err != nil {
		return s, err // the thread may not run
	}
	select {
	case <-ended:
	case <-late.Done(): // what it was made for is done
	}
	return s, nil
}

// sleeps waits until a thread sleeps. One that still runs may hold a lock of the Go runtime, and would keep it for
// good where an ordinary thread does not run.
func sleeps(late context.Context, tid int, stateOf func(tid int) (string, error)) error {
	const pause = 50 * time.Microsecond
	for {
		over := late.Err() != nil // before the look, which counts all the same
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

// withoutSlice returns what a thread has once it is of the default class and has no slice. A real-time policy is given
// back.
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

// ThreadProcess returns the process of a thread. A thread that is gone is fs.ErrNotExist.
func ThreadProcess(tid int) (int, error) {
	name := fmt.Sprintf("/proc/%d/status", tid)
	data, err := os.ReadFile(name)
	if err != nil {
		return 0, fmt.Errorf("process of thread %d: %w", tid, err)
	}
	for line := range bytes.Lines(data) {
		if text, is := bytes.CutPrefix(line, []byte("Tgid:")); is {
			pid, err := strconv.Atoi(string(bytes.TrimSpace(text)))
			if err != nil {
				return 0, fmt.Errorf("%s: Tgid %q: %w", name, text, ErrMalformed)
			}
			return pid, nil
		}
	}
	return 0, fmt.Errorf("%s: no Tgid: %w", name, ErrMalformed)
}
