package hostwrite

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/kernel"
)

// Scheduled gives a thread a class, priority, nice value and slice (sched_setattr(2)); of slice 0
// the kernel makes the default. What the thread forks from then on has the same. The error is the
// kernel's: ESRCH for a thread that is gone, EPERM without CAP_SYS_NICE, and where the thread's
// group has no budget for real-time threads.
func Scheduled(tid int, s kernel.Scheduled) error {
	attr := unix.SchedAttr{
		Size: unix.SizeofSchedAttr, Policy: uint32(s.Class), Nice: int32(s.Nice), Priority: uint32(s.Priority), //nolint:gosec // -20 to 19, 0 to 99
		Runtime: uint64(max(s.Slice, 0)),
	}
	if s.ResetOnFork {
		attr.Flags = unix.SCHED_FLAG_RESET_ON_FORK
	}
	if err := unix.SchedSetAttr(tid, &attr, 0); err != nil {
		return fmt.Errorf("give thread %d policy %s, priority %d, slice %v: %w", tid, s.Class, s.Priority, s.Slice.Round(time.Microsecond), err)
	}
	return nil
}
