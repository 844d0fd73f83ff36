package kernel

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"
)

// ThreadCPUTime reads CLOCK_THREAD_CPUTIME_ID: the CPU time that the calling operating-system thread has used since it
// began. Only the difference of two calls on one thread is meaningful, so the caller holds runtime.LockOSThread. It is
// a real system call (the vDSO has no fast path for this clock).
func ThreadCPUTime() (time.Duration, error) {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0, fmt.Errorf("clock_gettime CLOCK_THREAD_CPUTIME_ID: %w", err)
	}
	return time.Duration(ts.Nano()), nil
}
