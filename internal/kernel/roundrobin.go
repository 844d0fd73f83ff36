package kernel

import (
	"fmt"
	"runtime"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// RoundRobin returns how long the kernel lets a thread of SCHED_RR run before an equal one
// (sched_rr_get_interval(2)): the file of the setting has what was written, and the kernel counts ticks.
// A thread of this process is such a one for that moment. Without CAP_SYS_NICE, or a limit of real-time
// priorities, the error is EPERM.
func RoundRobin() (time.Duration, error) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	before, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return 0, fmt.Errorf("policy of this thread: %w", err)
	}
	rr := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &rr, 0); err != nil {
		return 0, fmt.Errorf("run under SCHED_RR: %w", err)
	}
	var interval unix.Timespec
	_, _, errno := unix.Syscall(unix.SYS_SCHED_RR_GET_INTERVAL, 0, uintptr(unsafe.Pointer(&interval)), 0)
	if err := unix.SchedSetAttr(0, before, 0); err != nil {
		return 0, fmt.Errorf("run as before: %w", err)
	}
	if errno != 0 {
		return 0, fmt.Errorf("interval of SCHED_RR: %w", errno)
	}
	return time.Duration(interval.Nano()), nil
}
