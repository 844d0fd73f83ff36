package kernel

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RoundRobin returns how long the kernel lets a SCHED_RR thread run before a thread of equal priority
// (sched_rr_get_interval(2)). The file of the setting shows the written value, but the kernel counts ticks. RoundRobin
// asks on a thread of its own, which then ends. The error is EPERM without CAP_SYS_NICE or a limit of real-time
// priorities.
func RoundRobin() (interval time.Duration, err error) {
	OnThread(func() { interval, err = roundRobin() })
	return interval, err
}

// roundRobin changes the calling thread to SCHED_RR and returns its interval.
func roundRobin() (time.Duration, error) {
	rr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &rr, 0); err != nil {
		return 0, fmt.Errorf("run under SCHED_RR: %w", err)
	}
	var interval unix.Timespec
	if _, _, errno := unix.Syscall(unix.SYS_SCHED_RR_GET_INTERVAL, 0, uintptr(unsafe.Pointer(&interval)), 0); errno != 0 {
		return 0, fmt.Errorf("interval of SCHED_RR: %w", errno)
	}
	return time.Duration(interval.Nano()), nil
}
