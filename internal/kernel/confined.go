package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/cpuset"
)

// ConfinedCPUs returns the CPUs that threads of other programs keep to: those whose
// affinity is narrow, at most half of the CPUs given. Threads of the kernel, of this
// process and of those that are excepted do not count. What cannot be read is left out.
func ConfinedCPUs(among cpuset.Set, except ...int) cpuset.Set {
	var confined cpuset.Set
	except = append(except, os.Getpid())
	dirs, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return confined
	}
	for _, dir := range dirs {
		pid, err := strconv.Atoi(filepath.Base(dir))
		if err != nil || slices.Contains(except, pid) || isOfKernel(dir) {
			continue
		}
		confined = confined.Union(confinedBy(dir, among))
	}
	return confined
}

// confinedBy returns the CPUs that the threads of one process keep to; none if it has ended.
func confinedBy(dir string, among cpuset.Set) cpuset.Set {
	var confined cpuset.Set
	tasks, err := os.ReadDir(dir + "/task")
	if err != nil {
		return confined
	}
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			continue
		}
		if cpus, err := ThreadAffinity(tid); err == nil && 2*cpus.Intersect(among).Size() <= among.Size() {
			confined = confined.Union(cpus.Intersect(among))
		}
	}
	return confined
}

// isOfKernel says whether a process is a thread of the kernel, which runs no program.
func isOfKernel(dir string) bool {
	_, err := os.Readlink(dir + "/exe")
	return errors.Is(err, fs.ErrNotExist)
}
