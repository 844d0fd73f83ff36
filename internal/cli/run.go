package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/signal"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// runFlags are the flags of berth run.
type runFlags struct {
	cpus, mems, policy, slice string
	config                    string
}

// own is what the command gets. Empty fields leave the setting unchanged.
type own struct {
	cpus, mems cpuset.Set
	// choose is how many CPUs to choose, instead of cpus.
	choose     int
	policy     string
	scheduling *kernel.Scheduling
}

func newRunCommand(g *globals) *cobra.Command {
	var f runFlags
	cmd := &cobra.Command{
		Use:   "run [--cpus N|LIST] [--mems LIST] [--policy POLICY] [--slice DURATION] -- COMMAND [ARGS...]",
		Short: "Run one command on its own CPUs and memory nodes, with its own scheduling policy",
		Long: `Sets its own CPUs, memory nodes, scheduling policy and slice, then becomes COMMAND, with
the same process id. Exit code and signals are those of COMMAND. Programs that COMMAND
starts inherit the settings. Nothing on the host changes, so there is nothing to undo.

--cpus N chooses N CPUs as berth place does: whole cores in one cache first, on the NUMA
nodes of --mems if given. It never chooses a CPU that a workload has exclusively, that is
isolated or reserved, or that is outside this control group or the current affinity. It
avoids CPUs to which other programs confine themselves, as long as there are others.
--cpus LIST uses exactly these CPUs; write 4-4 for CPU 4 alone. --mems binds strictly:
memory comes from these NUMA nodes or not at all. CPUs, memory policy, scheduling policy
and slice stay as berth run was started, unless a flag sets them.

All errors come before COMMAND starts. Exit code 1: N CPUs do not fit. 2: the machine or
the control group lacks a CPU or node that you named. 3: the kernel has no memory
policies, or no slices of single threads (Linux 6.12), or a privilege is missing
(real-time policies need CAP_SYS_NICE). 4: a workload has a CPU of the list exclusively.`,
		Example: `  berth run --cpus 4 --mems 1 -- ./server
  berth run --cpus 2-3 --policy fifo:40 -- ./poller
  berth run --policy batch --slice 20ms -- make -j8`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return usageError(errors.New("no command: allowed: berth run [FLAGS] -- COMMAND [ARGS...]"))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			if g.Root != "/" || g.Output != "" {
				return usageError(errors.New("--root, --output: not with berth run, which runs a command on this host"))
			}
			file, err := process.Find(args[0])
			if err != nil {
				return usageError(err)
			}
			machine, err := topology.Discover(os.DirFS("/"))
			if err != nil {
				return fmt.Errorf("machine: %w", err)
			}
			o, err := f.read(cmd, machine)
			if err != nil {
				return err
			}
			return f.become(cmd, o, machine, file, args)
		},
	}
	cmd.Flags().SetInterspersed(false) // flags after the command belong to the command
	cmd.Flags().StringVar(&f.cpus, "cpus", "", "how many CPUs, `N`, or which, a LIST such as 0-3,8")
	cmd.Flags().StringVar(&f.mems, "mems", "", "NUMA nodes that memory comes from, a `LIST`")
	cmd.Flags().StringVar(&f.policy, "policy", "", "scheduling `POLICY`: "+profile.PolicyRange)
	cmd.Flags().StringVar(&f.slice, "slice", "", "how long it runs before an equal thread, a `DURATION` of 100us to 100ms")
	configFlag(cmd, &f.config)
	_ = cmd.RegisterFlagCompletionFunc("policy", // fails only for an unknown flag
		cobra.FixedCompletions([]string{"other", "batch", "idle", "fifo:", "rr:"}, cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	return cmd
}

// read checks the flags against the machine.
func (f *runFlags) read(cmd *cobra.Command, machine *topology.Topology) (own, error) {
	given := func(name string) bool { return cmd.Flags().Changed(name) }
	if !given("cpus") && !given("mems") && !given("policy") && !given("slice") {
		return own{}, usageError(errors.New("nothing to set: allowed: one or more of --cpus, --mems, --policy, --slice"))
	}
	var o own
	var err error
	if given("mems") {
		if o.mems, err = readMems(f.mems, machine); err != nil {
			return o, err
		}
	}
	if given("cpus") {
		if o.cpus, o.choose, err = readCPUs(f.cpus, machine); err != nil {
			return o, err
		}
	}
	o.policy = f.policy
	if given("policy") || given("slice") {
		o.scheduling, err = readScheduling(f.policy, f.slice, given)
	}
	return o, err
}

// readCPUs reads a number of CPUs or a list.
func readCPUs(text string, machine *topology.Topology) (list cpuset.Set, n int, err error) {
	if text != "" && strings.Trim(text, "0123456789") == "" {
		n, err = strconv.Atoi(text)
		if err != nil || n < 1 || n > machine.Online.Size() {
			return list, 0, usageError(fmt.Errorf("--cpus %s: allowed: how many, 1 to %d, or a list of CPUs of %s; CPU 0 alone is 0-0", text, machine.Online.Size(), machine.Online))
		}
		return list, n, nil
	}
	list, err = cpuFlag("cpus", text, machine.Online)
	if err == nil && list.IsEmpty() {
		err = usageError(fmt.Errorf("--cpus %q: allowed: how many CPUs, or a list of one or more of %s", text, machine.Online))
	}
	return list, 0, err
}

// readMems reads NUMA nodes with memory that this process may use.
func readMems(text string, machine *topology.Topology) (cpuset.Set, error) {
	var nodes, known cpuset.Set
	for _, n := range machine.Nodes {
		nodes = nodes.Add(int(n.ID))
		if n.MemoryBytes > 0 {
			known = known.Add(int(n.ID))
		}
	}
	what := "NUMA nodes of this machine"
	if !known.IsEmpty() && known != nodes {
		nodes, what = known, "NUMA nodes with memory"
	}
	mine, err := kernel.OwnMemoryNodes()
	if err != nil {
		return cpuset.Set{}, err
	}
	if !mine.IsEmpty() && !nodes.IsSubsetOf(mine) {
		nodes, what = nodes.Intersect(mine), "NUMA nodes of this control group"
	}
	mems, err := cpuset.Parse(text)
	if err != nil || mems.IsEmpty() || !mems.IsSubsetOf(nodes) {
		return mems, usageError(fmt.Errorf("--mems %q: allowed: a list of %s, %s", text, what, nodes))
	}
	return mems, nil
}

// readScheduling reads the policy and the slice.
func readScheduling(policy, slice string, given func(string) bool) (*kernel.Scheduling, error) {
	s := &kernel.Scheduling{}
	if given("policy") {
		name, priority, ok := profile.Policy(policy)
		if !ok {
			return nil, usageError(fmt.Errorf("--policy %q: allowed: %s", policy, profile.PolicyRange))
		}
		class, _ := kernel.ClassNamed(name)
		s.Class, s.Priority = &class, priority
	}
	if given("slice") {
		k, _ := knob.Lookup("fair.slice")
		v, err := k.Parse(slice)
		if err != nil {
			return nil, usageError(fmt.Errorf("--slice %q: allowed: %s", slice, k.Range()))
		}
		if s.Class != nil && !s.Class.HasSlice() {
			return nil, usageError(fmt.Errorf("--slice with --policy %s: allowed: only with policy other or batch", policy))
		}
		s.Slice = time.Duration(v.N)
	}
	return s, nil
}

// bind binds this thread to its CPUs and its memory nodes.
func (f *runFlags) bind(cmd *cobra.Command, o *own, machine *topology.Topology) error {
	if o.choose > 0 || !o.cpus.IsEmpty() {
		if err := f.settleCPUs(cmd, o, machine); err != nil {
			return err
		}
		if err := kernel.BindCPUs(o.cpus); err != nil {
			return err
		}
	}
	if o.mems.IsEmpty() {
		return nil
	}
	return kernel.BindMemory(o.mems)
}

// become applies all settings to this thread and replaces the process by the command. It returns only on error.
func (f *runFlags) become(cmd *cobra.Command, o own, machine *topology.Topology, file string, args []string) error {
	runtime.LockOSThread() // the settings are per thread; exec makes this thread the process
	defer runtime.UnlockOSThread()
	if err := f.bind(cmd, &o, machine); err != nil {
		return err
	}
	for _, finding := range profile.LintWork(profile.Unit{Name: args[0], CPUs: o.cpus, Mems: o.mems, Policy: o.policy}, machine) {
		if finding.Severity == profile.Warning {
			_, _ = fmt.Fprintf(cmd.ErrOrStderr(), "berth: warning: %s: %s\n", finding.Code, finding.Text)
		}
	}
	if o.scheduling != nil {
		if err := kernel.Schedule(*o.scheduling); err != nil {
			return err
		}
	}
	signal.Reset(os.Interrupt, syscall.SIGTERM) // a signal that was ignored becomes ignored again
	err := process.Become(file, args, os.Environ())
	if errors.Is(err, syscall.ENOEXEC) || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		err = usageError(err)
	}
	return err
}
