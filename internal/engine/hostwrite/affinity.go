package hostwrite

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Affinity restricts a thread to these CPUs (sched_setaffinity(2)). A thread that has ended is no error. The error is
// the kernel's: EPERM for a thread of another user without CAP_SYS_NICE, EINVAL if the thread's group has none of the
// CPUs.
func Affinity(tid int, cpus cpuset.Set) error {
	var mask unix.CPUSet
	for cpu := range cpus.All() {
		mask.Set(cpu)
	}
	if err := unix.SchedSetaffinity(tid, &mask); err != nil && !errors.Is(err, unix.ESRCH) {
		return fmt.Errorf("let thread %d run on CPUs %s: %w", tid, cpus, err)
	}
	return nil
}
