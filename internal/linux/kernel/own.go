package kernel

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Class is the scheduling policy of a thread: one of the SCHED_ constants of sched(7).
type Class uint32

// The classes that need no CPU budget for the thread; SCHED_DEADLINE needs one.
const (
	Other Class = unix.SCHED_NORMAL
	FIFO  Class = unix.SCHED_FIFO
	RR    Class = unix.SCHED_RR
	Batch Class = unix.SCHED_BATCH
	Idle  Class = unix.SCHED_IDLE
)

// String returns the name of the class, as users write it.
func (c Class) String() string {
	switch c {
	case Other:
		return "other"
	case FIFO:
		return "fifo"
	case RR:
		return "rr"
	case Batch:
		return "batch"
	case Idle:
		return "idle"
	}
	return fmt.Sprintf("class %d", uint32(c))
}

// IsRealTime reports whether the class has priorities above all ordinary threads.
func (c Class) IsRealTime() bool { return c == FIFO || c == RR }

// Scheduling is the desired scheduling of a thread.
type Scheduling struct {
	// Class is nil to leave the thread's class unchanged.
	Class *Class
	// Priority is the priority of a real-time class, 1 to 99.
	Priority int
	// Slice is how long the thread runs before a thread of equal rank, 100us to 100ms; with 0 the slice stays. Only
	// Other and Batch have slices, since Linux 6.12.
	Slice time.Duration
}

// OwnGroupCPUs returns the CPUs of the calling thread's group, and lets the thread run on all of them. It asks for all
// CPUs, and the kernel reduces the request to the CPUs of the group. The caller has locked the goroutine to its thread.
func OwnGroupCPUs() (cpuset.Set, error) {
	var all unix.CPUSet
	for cpu := range cpuset.Max {
		all.Set(cpu)
	}
	if err := unix.SchedSetaffinity(0, &all); err != nil {
		return cpuset.Set{}, fmt.Errorf("run on all CPUs of the own control group: %w", err)
	}
	return ThreadAffinity(0)
}

// BindCPUs restricts the calling thread to these CPUs (sched_setaffinity(2)), and reads the affinity back. The affinity
// is inherited across exec and fork. The caller has locked the goroutine to its thread.
func BindCPUs(cpus cpuset.Set) error {
	mask := maskOf(cpus)
	if err := unix.SchedSetaffinity(0, &mask); err != nil {
		return fmt.Errorf("run on CPUs %s: %w", cpus, err)
	}
	has, err := ThreadAffinity(0)
	if err == nil && has != cpus {
		err = fmt.Errorf("run on CPUs %s: the kernel gave %s: %w", cpus, has, ErrNotEffective)
	}
	return err
}

// ErrNotEffective means that the kernel accepted a value but uses a different value.
var ErrNotEffective = errors.New("the kernel has another value")

// OwnMemoryNodes returns the NUMA nodes from which the calling thread's group may allocate memory, from
// /proc/thread-self/status. The set is empty if the kernel does not report the nodes.
func OwnMemoryNodes() (cpuset.Set, error) {
	list, err := ownStatus("Mems_allowed_list")
	if err != nil || list == "" {
		return cpuset.Set{}, err
	}
	nodes, err := cpuset.Parse(list)
	if err != nil {
		return nodes, fmt.Errorf("/proc/thread-self/status: Mems_allowed_list %q: %w: %w", list, ErrMalformed, err)
	}
	return nodes, nil
}

// BindMemory restricts the calling thread to memory of these NUMA nodes (set_mempolicy(2), MPOL_BIND), and reads the
// policy back (get_mempolicy(2)). The policy is inherited across exec and fork. The kernel silently leaves out nodes
// that the group does not have. On a kernel without NUMA the error is ErrNotSupported. The caller has locked the
// goroutine to its thread.
func BindMemory(nodes cpuset.Set) error {
	mask := maskOf(nodes)
	err := unix.SetMemPolicy(unix.MPOL_BIND, &mask)
	switch {
	case errors.Is(err, unix.ENOSYS):
		return fmt.Errorf("memory of NUMA nodes %s: the kernel has no memory policies (CONFIG_NUMA): %w", nodes, ErrNotSupported)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("memory of NUMA nodes %s: set_mempolicy, which the seccomp profile of a container may forbid: %w", nodes, err)
	case err != nil:
		return fmt.Errorf("memory of NUMA nodes %s: set_mempolicy: %w", nodes, err)
	}
	mode, has, err := memoryPolicy()
	if err == nil && (mode != unix.MPOL_BIND || has != nodes) {
		err = fmt.Errorf("memory of NUMA nodes %s: the kernel has policy %d with %s: %w", nodes, mode, has, ErrNotEffective)
	}
	return err
}

// memoryPolicy returns the policy of the calling thread, an MPOL_ constant, and its NUMA nodes. x/sys/unix has only the
// number of the system call, and no wrapper.
func memoryPolicy() (mode int32, nodes cpuset.Set, err error) {
	var mask unix.CPUSet
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)), 8*unsafe.Sizeof(mask), 0, 0, 0)
	if errno != 0 {
		return 0, nodes, fmt.Errorf("memory policy: get_mempolicy: %w", errno)
	}
	return mode, setOf(&mask), nil
}

// Schedule sets the class, priority and slice of the calling thread (sched_setattr(2)), and reads back the result. The
// nice value stays, and so does the slice if s has none. exec and fork inherit all of it.
//
// A kernel without slices of single threads silently ignores a slice; Schedule then returns ErrNotSupported. The error
// is the same if the group has no budget for real-time threads. The caller has locked the goroutine to its thread.
func Schedule(s Scheduling) error {
	had, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("how this thread is scheduled: %w", err)
	}
	// The other attributes that were read are left out: a default slice reads like a slice that was set, and
	// utilization clamps need a flag of their own.
	attr := &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: had.Policy, Flags: had.Flags & unix.SCHED_FLAG_RESET_ON_FORK, Nice: had.Nice, Priority: had.Priority}
	if s.Class != nil {
		attr.Policy, attr.Priority = uint32(*s.Class), uint32(s.Priority)
	}
	class := Class(attr.Policy)
	if s.Slice > 0 && !class.HasSlice() {
		return fmt.Errorf("slice %v: the policy of this process is %s, and only other and batch have slices: %w", s.Slice, class, ErrNotSupported)
	}
	attr.Runtime = uint64(s.Slice)
	if err := unix.SchedSetAttr(0, attr, 0); err != nil {
		return WhyNotScheduled(class, s.Priority, err)
	}
	if s.Slice == 0 {
		if err := keepSlice(had, attr); err != nil {
			return err
		}
	}
	return isScheduled(attr, s)
}

// isScheduled reads back whether the kernel applied the attributes that it was given for s.
func isScheduled(attr *unix.SchedAttr, s Scheduling) error {
	class := Class(attr.Policy)
	has, err := unix.SchedGetAttr(0, 0)
	switch {
	case err != nil:
		return fmt.Errorf("how this thread is scheduled: %w", err)
	case has.Policy != attr.Policy || has.Priority != attr.Priority:
		return fmt.Errorf("policy %s with priority %d: the kernel has %s with %d: %w", class, attr.Priority, Class(has.Policy), has.Priority, ErrNotEffective)
	case s.Slice > 0 && has.Runtime == 0:
		return fmt.Errorf("slice %v: only Linux 6.12 and newer have slices of single threads: %w", s.Slice, ErrNotSupported)
	case s.Slice > 0 && has.Runtime != attr.Runtime:
		return fmt.Errorf("slice %v: the kernel has %v: %w", s.Slice, time.Duration(has.Runtime), ErrNotEffective) //nolint:gosec // at most 100ms
	}
	return nil
}

// keepSlice restores the slice that the calling thread had before attr was set. A slice that was set reads like the
// default. The thread now has the default, so a former slice that differs from it was set.
func keepSlice(had, attr *unix.SchedAttr) error {
	class := Class(attr.Policy)
	if Class(had.Policy).IsRealTime() || !class.HasSlice() {
		return nil // the kernel showed no slice before, or shows none now
	}
	has, err := unix.SchedGetAttr(0, 0)
	if err == nil && has.Runtime != had.Runtime {
		attr.Runtime = had.Runtime
		err = unix.SchedSetAttr(0, attr, 0)
	}
	if err != nil {
		return fmt.Errorf("keep the slice of %v: %w", time.Duration(had.Runtime), err) //nolint:gosec // at most 100ms
	}
	return nil
}

// WhyNotScheduled explains why the kernel refused a class. The error is ErrNotSupported if the group has no budget for
// real-time threads.
func WhyNotScheduled(class Class, priority int, err error) error {
	what := fmt.Sprintf("policy %s with priority %d", class, priority)
	capable, known := hasSysNice()
	switch {
	case !errors.Is(err, unix.EPERM):
		return fmt.Errorf("%s: sched_setattr: %w", what, err)
	case class.IsRealTime() && known && capable:
		return fmt.Errorf("%s: refused although this process has CAP_SYS_NICE: the control group has no budget for real-time threads (cpu.rt_runtime_us is 0, CONFIG_RT_GROUP_SCHED), or this process is in a user name space: %w", what, ErrNotSupported)
	case class.IsRealTime():
		return fmt.Errorf("%s: it needs CAP_SYS_NICE, or a limit of real-time priorities (ulimit -r) of %d or more: %w", what, priority, err)
	default:
		return fmt.Errorf("%s: it needs CAP_SYS_NICE: %w", what, err)
	}
}

// hasSysNice reports whether the calling thread has CAP_SYS_NICE, and whether that is known.
func hasSysNice() (has, known bool) {
	text, err := ownStatus("CapEff")
	if err != nil {
		return false, false
	}
	capabilities, err := strconv.ParseUint(text, 16, 64)
	return capabilities&(1<<unix.CAP_SYS_NICE) != 0, err == nil
}

// ownStatus returns a field of the calling thread in /proc/thread-self/status, or "" if the field is missing.
func ownStatus(field string) (string, error) {
	value, err := statusField("/proc/thread-self/status", field)
	if err != nil {
		return "", fmt.Errorf("own status: %w", err)
	}
	return value, nil
}

// statusField returns a field of a status file, or "" if the field is missing.
func statusField(file, field string) (string, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return "", err //nolint:wrapcheck // the callers say what they want, and the error names the file
	}
	for line := range strings.Lines(string(data)) {
		if value, is := strings.CutPrefix(line, field+":"); is {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}
