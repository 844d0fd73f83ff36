package hostwrite

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// Cookie copies the core scheduling cookie of the calling thread, or its absence, to another thread
// (PR_SCHED_CORE_SHARE_TO of prctl(2)). The error is the kernel's: ESRCH for a thread that has ended, EPERM if the
// caller may not trace the thread's process. The caller has locked the goroutine to its thread.
func Cookie(tid int) error {
	err := unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_SHARE_TO, uintptr(tid), unix.PR_SCHED_CORE_SCOPE_THREAD, 0)
	if err != nil {
		return fmt.Errorf("give thread %d the core scheduling cookie of this one: %w", tid, err)
	}
	return nil
}
