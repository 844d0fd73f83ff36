package kernel

import (
	"bytes"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// The positions of a thread's flags and start time in its ThreadStat file, counted from the state, which is the first
// field after the name.
const (
	flagsField = 6
	startField = 19
)

// Flags of a thread (include/linux/sched.h).
const (
	exiting       = 0x00000004 // PF_EXITING
	noSetAffinity = 0x04000000 // PF_NO_SETAFFINITY: a kernel thread that stays on its CPUs
)

// ThreadAffinity returns the CPUs that a thread may run on (sched_getaffinity(2)): the thread's own request, limited to
// the CPUs of its group. The error is the kernel's: ESRCH for a thread that has ended.
func ThreadAffinity(tid int) (cpuset.Set, error) {
	var mask unix.CPUSet
	if err := unix.SchedGetaffinity(tid, &mask); err != nil {
		return cpuset.Set{}, fmt.Errorf("affinity of thread %d: %w", tid, err)
	}
	return setOf(&mask), nil
}

// ThreadStart returns when a thread was started, in clock ticks after boot. Together with its id this identifies the
// thread for as long as the machine runs. The error is fs.ErrNotExist for a thread that has ended.
func ThreadStart(tid int) (uint64, error) {
	start, err := threadStat(tid, startField)
	if err != nil {
		return 0, fmt.Errorf("start of thread %d: %w", tid, err)
	}
	return start, nil
}

// ProcessThreads returns the ids of the threads of a process. The error is fs.ErrNotExist for a process that has ended.
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

// ThreadIsBound reports whether the kernel lets no program change the affinity of a thread: it is a kernel thread made
// for its CPUs. For a thread that has ended it is false.
func ThreadIsBound(tid int) bool {
	flags, err := threadStat(tid, flagsField)
	return err == nil && flags&noSetAffinity != 0
}

// ThreadEnds reports whether a thread no longer runs its program, and is exiting. The thread, and other threads of its
// process, may still have files open and locked. For a thread that has ended it is false.
func ThreadEnds(tid int) bool {
	flags, err := threadStat(tid, flagsField)
	return err == nil && flags&exiting != 0
}

// ThreadStat returns the path of a thread's stat file below a /proc. It is not /proc/<tid>/stat: that file describes
// the whole process, for any of its threads, and the kernel walks all threads for it (do_task_stat with whole=1 in
// fs/proc/array.c). Before Linux 6.8 it does so with interrupts off. Reading that file for every thread would take time
// quadratic in their number. Both files have the same fields, with the thread's own values where threads have them.
func ThreadStat(tid string) string { return "/proc/" + tid + "/task/" + tid + "/stat" }

// threadStat returns a numeric field of the ThreadStat file.
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

// sleeping is the state of a thread that waits and that signals can wake.
const sleeping = "S"

// threadState returns the state letter of a thread.
func threadState(tid int) (string, error) { return threadField(tid, 0) }

// threadField returns a field of the ThreadStat file.
func threadField(tid, field int) (string, error) {
	name := ThreadStat(strconv.Itoa(tid))
	data, err := os.ReadFile(name)
	if err != nil {
		return "", err //nolint:wrapcheck // the callers say what they want, and the error names the file
	}
	fields := bytes.Fields(data[bytes.LastIndexByte(data, ')')+1:]) // a name may contain anything
	if len(fields) <= field {
		return "", fmt.Errorf("%s: %d fields: %w", name, len(fields), ErrMalformed)
	}
	return string(fields[field]), nil
}

// The inodes of the kernel's initial namespaces (include/linux/proc_ns.h).
const (
	initialIPCNamespace  = 0xEFFFFFFF // PROC_IPC_INIT_INO
	initialUTSNamespace  = 0xEFFFFFFE // PROC_UTS_INIT_INO
	initialUserNamespace = 0xEFFFFFFD // PROC_USER_INIT_INO
	initialPIDNamespace  = 0xEFFFFFFC // PROC_PID_INIT_INO
)

// SeesAllThreads reports whether every thread of the machine has an id here: this process is in the kernel's initial
// pid namespace. If the namespace cannot be read it returns true.
func SeesAllThreads() bool {
	is, err := isInitial("pid", initialPIDNamespace)
	return err != nil || is
}

// SeesEachThread is like SeesAllThreads, but returns false if the namespace cannot be read.
func SeesEachThread() bool { return surely("pid", initialPIDNamespace) }

// SharesIPC reports whether this process is in the kernel's initial ipc namespace, which System V IPC and POSIX message
// queues have their limits in. If the namespace cannot be read it returns false.
func SharesIPC() bool { return surely("ipc", initialIPCNamespace) }

// SharesNames is like SharesIPC, for the uts namespace with the host's name.
func SharesNames() bool { return surely("uts", initialUTSNamespace) }

// SharesUsers is like SharesIPC, for the user namespace.
func SharesUsers() bool { return surely("user", initialUserNamespace) }

func surely(kind string, inode uint64) bool {
	is, err := isInitial(kind, inode)
	return err == nil && is
}

// isInitial reports whether the namespace of a kind that this process is in has an inode (/proc/self/ns).
func isInitial(kind string, inode uint64) (bool, error) {
	var stat unix.Stat_t
	if err := unix.Stat("/proc/self/ns/"+kind, &stat); err != nil {
		return false, fmt.Errorf("%s namespace: %w", kind, err)
	}
	return stat.Ino == inode, nil
}
