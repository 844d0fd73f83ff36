package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// confineRounds bounds how often Confine checks all threads: a thread that is just being made has the affinity of the
// thread that makes it.
const confineRounds = 5

// Confine restricts all threads of this process, and the threads that they make, to the CPUs (sched_setaffinity(2)).
// The error is the kernel's, for example because the process's group has none of the CPUs.
func Confine(cpus cpuset.Set) error {
	mask := maskOf(cpus)
	for range confineRounds {
		tasks, err := os.ReadDir("/proc/self/task")
		if err != nil {
			return fmt.Errorf("own threads: %w", err)
		}
		changed := false
		for _, task := range tasks {
			moved, err := move(task.Name(), &mask)
			if err != nil {
				return fmt.Errorf("run on CPUs %s: %w", cpus, err)
			}
			changed = changed || moved
		}
		if !changed {
			return nil
		}
	}
	return nil
}

// maskOf returns the kernel's mask for a set of CPUs or NUMA nodes.
func maskOf(set cpuset.Set) unix.CPUSet {
	var mask unix.CPUSet
	for id := range set.All() {
		mask.Set(id)
	}
	return mask
}

// setOf returns the set for a kernel mask.
func setOf(mask *unix.CPUSet) cpuset.Set {
	var set cpuset.Set
	for id := range cpuset.Max {
		if mask.IsSet(id) {
			set = set.Add(id)
		}
	}
	return set
}

// move sets the affinity of a thread, and reports whether it was different. It ignores a thread that has ended.
func move(task string, mask *unix.CPUSet) (bool, error) {
	tid, err := strconv.Atoi(task)
	if err != nil {
		return false, fmt.Errorf("number of a thread: %w", err)
	}
	var has unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &has); errors.Is(err, unix.ESRCH) || err == nil && has == *mask {
		return false, nil
	}
	if err := unix.SchedSetaffinity(tid, mask); err != nil && !errors.Is(err, unix.ESRCH) {
		return false, fmt.Errorf("thread %d: %w", tid, err)
	}
	return true, nil
}
