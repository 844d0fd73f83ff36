package process

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// Prefer changes the policy of a process's threads from the ordinary policy to that of a detached process. These
// threads then keep running when real-time threads of other programs would starve them. Prefer skips threads with
// another policy. A thread or process that has ended is no error.
func Prefer(pid int) error {
	threads, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("list threads of process %d: %w", pid, err)
	}
	var errs []error
	for _, thread := range threads {
		tid, err := strconv.Atoi(thread.Name())
		if err == nil {
			err = prefer(tid)
		}
		if err != nil && !errors.Is(err, unix.ESRCH) {
			errs = append(errs, fmt.Errorf("prefer thread %s of process %d: %w", thread.Name(), pid, err))
		}
	}
	return errors.Join(errs...)
}

// Continue resumes a process that a signal or a terminal stopped. A process that has ended is no error.
func Continue(pid int) error {
	if err := unix.Kill(pid, unix.SIGCONT); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("continue process %d: %w", pid, err)
	}
	return nil
}

func prefer(tid int) error {
	attr, err := unix.SchedGetAttr(tid, 0)
	if err != nil || attr.Policy != unix.SCHED_NORMAL {
		return err //nolint:wrapcheck // Prefer does
	}
	return unix.SchedSetAttr(tid, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: RoundRobin, Priority: Highest}, 0) //nolint:wrapcheck // likewise
}
