package kernel

import (
	"context"
	"errors"
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RoundRobin returns how long the kernel lets a SCHED_RR thread run before a thread of equal priority
// (sched_rr_get_interval(2)). The file of the setting shows the written value, but the kernel counts ticks. RoundRobin
// asks about a thread made for this purpose, which sleeps while it has that policy: real-time threads that have all
// CPUs do not stop the answer. The error is EPERM without CAP_SYS_NICE or a limit of real-time priorities, and
// ErrStarved if the thread does not run within a second.
func RoundRobin() (time.Duration, error) {
	interval, err := onSleeper(answersIn, OnThread, func(late context.Context, tid int) (time.Duration, error) {
		if err := sleeps(late, tid, threadState); err != nil {
			return 0, err
		}
		return roundRobin(tid)
	})
	if err != nil {
		return 0, fmt.Errorf("interval of SCHED_RR: %w", err)
	}
	return interval, nil
}

// roundRobin returns the interval of a thread while it has the policy SCHED_RR. It then restores the thread's policy.
func roundRobin(tid int) (time.Duration, error) {
	had, err := unix.SchedGetAttr(tid, 0)
	if err != nil {
		return 0, fmt.Errorf("sched_getattr: %w", err)
	}
	rr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(tid, &rr, 0); err != nil {
		return 0, fmt.Errorf("sched_setattr: %w", err)
	}
	var interval unix.Timespec
	_, _, errno := unix.Syscall(unix.SYS_SCHED_RR_GET_INTERVAL, uintptr(tid), uintptr(unsafe.Pointer(&interval)), 0)
	if errno != 0 {
		err = fmt.Errorf("sched_rr_get_interval: %w", errno)
	}
	if back := unix.SchedSetAttr(tid, had, 0); back != nil {
		err = errors.Join(err, fmt.Errorf("sched_setattr: %w", back))
	}
	return time.Duration(interval.Nano()), err
}
