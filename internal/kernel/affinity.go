package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/cpuset"
)

// confineRounds bounds how often all threads are looked at: one that is just being
// made by another has that one's affinity.
const confineRounds = 5

// Confine lets all threads of this process, and those that they make, run on the
// CPUs only (sched_setaffinity(2)). The error is the kernel's, for example because
// the process's group has none of them.
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

// maskOf returns the kernel's form of a set, of CPUs or of NUMA nodes.
func maskOf(set cpuset.Set) unix.CPUSet {
	var mask unix.CPUSet
	for id := range set.All() {
		mask.Set(id)
	}
	return mask
}

// setOf returns the set of the kernel's form.
func setOf(mask *unix.CPUSet) cpuset.Set {
	var set cpuset.Set
	for id := range cpuset.Max {
		if mask.IsSet(id) {
			set = set.Add(id)
		}
	}
	return set
}

// move gives a thread an affinity, and says whether it had another one. A thread that
// is gone has none.
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
