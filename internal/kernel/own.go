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

	"github.com/berth-project/berth/internal/cpuset"
)

// Class is how the scheduler treats a thread: one of the SCHED_ constants of sched(7).
type Class uint32

// The classes that a thread can be given without a budget of its own.
const (
	Other Class = unix.SCHED_NORMAL
	FIFO  Class = unix.SCHED_FIFO
	RR    Class = unix.SCHED_RR
	Batch Class = unix.SCHED_BATCH
	Idle  Class = unix.SCHED_IDLE
)

// String returns the word of the class, as users write it.
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

// IsRealTime says whether a class has priorities above all ordinary threads.
func (c Class) IsRealTime() bool { return c == FIFO || c == RR }

// Scheduling is what a thread shall have of the scheduler.
type Scheduling struct {
	// Class is nil for the one that the thread has.
	Class *Class
	// Priority is that of a real-time class, 1 to 99.
	Priority int
	// Slice is how long the thread runs before an equal one, 100us to 100ms; 0 is the one
	// that the thread has. Only Other and Batch have one, since Linux 6.12.
	Slice time.Duration
}

// OwnGroupCPUs returns the CPUs that the group of the calling thread has, and lets the thread
// run on all of them: the kernel keeps of a request for every CPU what the group has. The
// caller has locked the goroutine to its thread.
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

// BindCPUs lets the calling thread run on these CPUs only, and reads back that it does
// (sched_setaffinity(2)). What it becomes by exec keeps them, as what that forks does. The
// caller has locked the goroutine to its thread.
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

// ErrNotEffective says that the kernel took a value and has another one.
var ErrNotEffective = errors.New("the kernel has another value")

// OwnMemoryNodes returns the NUMA nodes that the group of the calling thread may have memory of,
// as /proc/thread-self/status has them, and none where the kernel does not say.
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

// BindMemory lets the calling thread take memory of these NUMA nodes only (set_mempolicy(2),
// MPOL_BIND), and reads back that it does (get_mempolicy(2)); exec and fork keep that. A kernel
// without NUMA is ErrNotSupported. Of the nodes, the kernel leaves out without a word those that
// the group does not have. The caller has locked the goroutine to its thread.
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

// memoryPolicy returns the policy of the calling thread, an MPOL_ constant, and its NUMA nodes.
// x/sys/unix has the number of the system call and no wrapper.
func memoryPolicy() (mode int32, nodes cpuset.Set, err error) {
	var mask unix.CPUSet
	_, _, errno := unix.Syscall6(unix.SYS_GET_MEMPOLICY, uintptr(unsafe.Pointer(&mode)), uintptr(unsafe.Pointer(&mask)), 8*unsafe.Sizeof(mask), 0, 0, 0)
	if errno != 0 {
		return 0, nodes, fmt.Errorf("memory policy: get_mempolicy: %w", errno)
	}
	return mode, setOf(&mask), nil
}

// Schedule gives the calling thread a class, a priority and a slice, and reads back what
// the kernel made of them (sched_setattr(2)). Its nice value stays, and without another one its
// slice does. exec and fork keep all of it. A kernel that has no slices of single threads takes
// one without a word, which is ErrNotSupported here, as a group without a budget for real-time
// threads is. The caller has locked the goroutine to its thread.
func Schedule(s Scheduling) error {
	had, err := unix.SchedGetAttr(0, 0)
	if err != nil {
		return fmt.Errorf("how this thread is scheduled: %w", err)
	}
	// The rest of what was read stays away: a slice that is the default reads like one that
	// was set, and utilization clamps are only taken with a flag of their own.
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

// isScheduled reads back what the kernel made of the attributes that it was given for s.
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

// keepSlice gives the calling thread the slice back that it had before attr was set. A slice that
// was set reads like the default: it was set if it is another one than the default, which the
// thread has now.
func keepSlice(had, attr *unix.SchedAttr) error {
	class := Class(attr.Policy)
	if Class(had.Policy).IsRealTime() || !class.HasSlice() {
		return nil // no slice was or is shown
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

// WhyNotScheduled says what the kernel's refusal of a class is about. It is ErrNotSupported where
// the group has no budget for real-time threads.
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

// hasSysNice says whether the calling thread has CAP_SYS_NICE, and whether that is known.
func hasSysNice() (has, known bool) {
	text, err := ownStatus("CapEff")
	if err != nil {
		return false, false
	}
	capabilities, err := strconv.ParseUint(text, 16, 64)
	return capabilities&(1<<unix.CAP_SYS_NICE) != 0, err == nil
}

// ownStatus returns a field of the calling thread in /proc/thread-self/status, "" where it
// has none of the name.
func ownStatus(field string) (string, error) {
	data, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		return "", fmt.Errorf("own status: %w", err)
	}
	for line := range strings.Lines(string(data)) {
		if value, is := strings.CutPrefix(line, field+":"); is {
			return strings.TrimSpace(value), nil
		}
	}
	return "", nil
}
