package kernel

import (
	"fmt"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RoundRobin returns how long the kernel lets a thread of SCHED_RR run before an equal one
// (sched_rr_get_interval(2)): the file of the setting has what was written, and the kernel counts ticks.
// It asks on a thread of its own, which then ends. Without CAP_SYS_NICE, or a limit of real-time
// priorities, the error is EPERM.
func RoundRobin() (interval time.Duration, err error) {
	OnThread(func() { interval, err = roundRobin() })
	return interval, err
}

// roundRobin makes the calling thread one of SCHED_RR.
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
