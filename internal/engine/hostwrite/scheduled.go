package hostwrite

import (
	"fmt"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/linux/kernel"
)

// Scheduled sets the class, priority, nice value and slice of a thread (sched_setattr(2)). For slice 0 the kernel sets
// the default. Without s.ResetOnFork, later forks of the thread inherit these attributes. The error is the kernel's:
// ESRCH for a thread that has ended, and EPERM without CAP_SYS_NICE or if the thread's group has no budget for
// real-time threads.
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
