package kernel

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/cpuset"
)

// Where ThreadStat has the flags and the start of a thread, counted from the state, which
// is the first field after the name.
const (
	flagsField = 6
	startField = 19
)

// Flags of a thread (include/linux/sched.h).
const (
	exiting       = 0x00000004 // PF_EXITING
	noSetAffinity = 0x04000000 // PF_NO_SETAFFINITY: a thread of the kernel that stays on its CPUs.
)

// ThreadAffinity returns the CPUs that a thread may run on (sched_getaffinity(2)): what it
// asked for, as far as its group has it. The error is the kernel's, ESRCH for a thread
// that is gone.
func ThreadAffinity(tid int) (cpuset.Set, error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &mask); err != nil {
		return cpuset.Set{}, fmt.Errorf("affinity of thread %d: %w", tid, err)
	}
	return setOf(&mask), nil
}

// ThreadStart returns when a thread was started, in clock ticks after boot: together with
// its id it names the thread for as long as the machine runs. A thread that is gone is
// fs.ErrNotExist.
func ThreadStart(tid int) (uint64, error) {
	start, err := threadStat(tid, startField)
	if err != nil {
		return 0, fmt.Errorf("start of thread %d: %w", tid, err)
	}
	return start, nil
}

// ProcessThreads returns the ids of the threads of a process. A process that is gone is fs.ErrNotExist.
func ProcessThreads(pid int) ([]int, error) {
	tasks, err := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	if err != nil {
		return nil, fmt.Errorf("threads of process %d: %w", pid, err)
	}
	tids := make([]int, 0, len(tasks))
	for _, task := range tasks {
		tid, err := strconv.Atoi(task.Name())
		if err != nil {
			return nil, fmt.Errorf("threads of process %d: %q: %w", pid, task.Name(), ErrMalformed)
		}
		tids = append(tids, tid)
	}
	return tids, nil
}

// ThreadIsBound says that the kernel lets no program change the affinity of a thread: it is one
// of its own, and made for these CPUs. Of a thread that is gone it says false.
func ThreadIsBound(tid int) bool {
	flags, err := threadStat(tid, flagsField)
	return err == nil && flags&noSetAffinity != 0
}

// ThreadEnds says that a thread runs no program any more, and ends. It may still have files open and locked, as others of
// its process. Of a thread that is gone it says false.
func ThreadEnds(tid int) bool {
	flags, err := threadStat(tid, flagsField)
	return err == nil && flags&exiting != 0
}

// ThreadStat is the file of a thread's state under a /proc. It is not /proc/<tid>/stat: that one is of the whole
// process, whichever thread it is asked of, and the kernel walks all threads for it (do_task_stat with whole=1 in
// fs/proc/array.c), before Linux 6.8 with interrupts off. Whoever asked it of each thread would wait for the square of
// their number. Both files have the same fields, and those of the thread where a thread has them.
func ThreadStat(tid string) string { return "/proc/" + tid + "/task/" + tid + "/stat" }

// threadStat returns a number of that file.
func threadStat(tid, field int) (uint64, error) {
	text, err := threadField(tid, field)
	if err != nil {
		return 0, err
	}
	n, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: field %q: %w", ThreadStat(strconv.Itoa(tid)), text, ErrMalformed)
	}
	return n, nil
}

// sleeping is the state of a thread that waits, and is woken by signals too.
const sleeping = "S"

// threadState returns the state of a thread, by its letter.
func threadState(tid int) (string, error) { return threadField(tid, 0) }

// threadField returns a field of that file.
func threadField(tid, field int) (string, error) {
	name := ThreadStat(strconv.Itoa(tid))
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err //nolint:wrapcheck // the callers say what they want, and the error names the file
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // a name may hold anything
	if len(fields) <= field {
		return "", fmt.Errorf("%s: %d fields: %w", name, len(fields), ErrMalformed)
	}
	return string(fields[field]), nil
}

// initialPIDNamespace is the inode of the pid namespace that the kernel starts with
// (PROC_PID_INIT_INO, include/linux/proc_ns.h).
const initialPIDNamespace = 0xEFFFFFFC

// SeesAllThreads says whether every thread of the machine has an id here: this process is
// in the pid namespace that the kernel started with. Where that cannot be read it is
// taken for granted.
func SeesAllThreads() bool {
	is, err := isInitial()
	return err != nil || is
}

// SeesEachThread says it, too, and is false where it cannot be read.
func SeesEachThread() bool {
	is, err := isInitial()
	return err == nil && is
}

func isInitial() (bool, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/pid", &stat); err != nil {
		return false, fmt.Errorf("pid namespace: %w", err)
	}
	return stat.Ino == initialPIDNamespace, nil
}
