package kernel

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ConfinedCPUs returns the CPUs that threads of other programs are confined to: threads whose affinity includes at most
// half of the given CPUs. It ignores kernel threads, threads of this process and of the excepted processes, and
// everything that it cannot read.
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

// confinedBy returns the CPUs that the threads of one process are confined to; the empty set if the process has ended.
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

// isOfKernel reports whether a process is a kernel thread, which runs no program.
func isOfKernel(dir string) bool {
	_, err := os.Readlink(dir + "/exe")
	return errors.Is(err, fs.ErrNotExist)
}
