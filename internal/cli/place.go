package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/scheduler/simulate"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// placeFlags are the flags of berth place.
type placeFlags struct {
	cpus       int
	taken      []string
	reserved   []string
	policy     string
	exclusive  string
	numa       string
	strategy   string
	file       string
	efficiency bool
	required   bool
	whole      bool
}

// placedCPUs is the output of berth place; its JSON is a stable contract.
type placedCPUs struct {
	CPUs cpuset.Set `json:"cpus"`
	// LeftEmpty are the SMT siblings that --exclusive PCPULevel keeps from all pods.
	LeftEmpty cpuset.Set `json:"leftEmpty,omitzero"`
	Mems      cpuset.Set `json:"mems"`
	NUMANodes []int      `json:"numaNodes"`
	L3        []int      `json:"l3"`
	// SplitCores counts the cores of which the answer has only a part.
	SplitCores int               `json:"splitCores"`
	Why        []simulate.Reason `json:"why"`

	machine     *topology.Topology
	open, taken cpuset.Set // available CPUs, and CPUs that others have
}

func newPlaceCommand(g *globals) *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place --cpus N",
		Short: "Choose CPUs on this machine, or on a described one",
		Long: `Chooses CPUs for one container, with the functions of the scheduler, and gives the
reasons. The command only computes: it pins nothing and remembers nothing.

Policies are preferences. If a policy cannot be met, the command gives the next best
answer and says so in the reasons. With --required, policies are conditions. --taken
names CPUs that other containers have exclusively, --reserved names CPUs kept for the
system; both may be repeated. One whole core always stays free for containers that are
not pinned, unless --whole-machine is given. The mems of the answer are its NUMA nodes
that have memory. The command does not know how much memory the container needs, so it
adds no nodes for lack of memory.

Exit code 1 says that the container does not fit, and why.`,
		Example: `  berth place --cpus 4
  berth place --cpus 8 --taken 0-3,32-35 --numa-policy SingleNUMANode --required
  berth topology -o json >machine.json
  berth place --cpus 4 --policy SpreadByPCPUs --topology machine.json -o json
  berth place --cpus 4 -o svg >place.svg`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			p, err := f.place(cmd, g)
			if err != nil {
				return err
			}
			if format == formatSVG {
				return p.draw(cmd.OutOrStdout())
			}
			return show(cmd.OutOrStdout(), format, p, p.print)
		}, formatSVG),
	}
	f.register(cmd)
	return cmd
}

func (f *placeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&f.cpus, "cpus", 0, "how many CPUs, 1 or more")
	fs.StringArrayVar(&f.taken, "taken", nil, "CPUs that other containers have exclusively, a `LIST` such as 0-3,8; may be repeated")
	fs.StringArrayVar(&f.reserved, "reserved", nil, "CPUs kept for the system, a `LIST`; may be repeated")
	fs.StringVar(&f.policy, "policy", string(v1alpha1.CPUBindFullPCPUs), "how the CPUs lie on cores: "+joined(bindPolicies()))
	fs.StringVar(&f.exclusive, "exclusive", string(v1alpha1.CPUExclusiveNone), "what is not shared with others: "+joined(v1alpha1.CPUExclusivePolicies()))
	fs.StringVar(&f.numa, "numa-policy", string(v1alpha1.NUMABestEffort), "over how many NUMA nodes: "+joined(v1alpha1.NUMATopologyPolicies()))
	fs.StringVar(&f.strategy, "strategy", string(v1alpha1.NUMAMostAllocated), "which of equally near CPUs: "+joined(v1alpha1.NUMAAllocateStrategies()))
	fs.BoolVar(&f.efficiency, "efficiency-cores", false, "also use efficiency cores")
	fs.BoolVar(&f.required, "required", false, "the policies are conditions, not preferences")
	fs.BoolVar(&f.whole, "whole-machine", false, "also give out the last whole core, which the scheduler keeps for containers that are not pinned")
	fs.StringVar(&f.file, "topology", "", "the machine in this `FILE`, in any form that berth topology writes, instead of the host; - is standard input")
	for name, allowed := range map[string][]string{
		"policy": texts(bindPolicies()), "exclusive": texts(v1alpha1.CPUExclusivePolicies()),
		"numa-policy": texts(v1alpha1.NUMATopologyPolicies()), "strategy": texts(v1alpha1.NUMAAllocateStrategies()),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, // fails only for an unknown flag
			cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	}
}

// bindPolicies returns the policies of a pod, except the alias of the first.
func bindPolicies() []v1alpha1.CPUBindPolicy {
	return []v1alpha1.CPUBindPolicy{v1alpha1.CPUBindFullPCPUs, v1alpha1.CPUBindSpreadByPCPUs, v1alpha1.CPUBindConstrainedBurst}
}

func texts[S ~string](names []S) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = string(name)
	}
	return all
}

// place reads the flags and the machine, and chooses CPUs as the scheduler does.
func (f *placeFlags) place(cmd *cobra.Command, g *globals) (*placedCPUs, error) {
	if !cmd.Flags().Changed("cpus") {
		return nil, usageError(fmt.Errorf("--cpus: missing: allowed: 1 to %d", cpuset.Max))
	}
	p, err := f.request()
	if err != nil {
		return nil, err
	}
	if p.machine, err = f.machine(cmd, g); err != nil {
		return nil, err
	}
	if p.taken, err = cpuFlags("taken", f.taken, p.machine.Topology().CPUs()); err != nil {
		return nil, err
	}
	return f.choose(p)
}

// choice returns the value for a flag's word. Lower case and hyphens are accepted, as in other flags: full-pcpus is
// FullPCPUs.
func choice[T any](flag, word string, allowed []string, values []T) (T, error) {
	plainly := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	i := slices.IndexFunc(allowed, func(s string) bool { return plainly(s) == plainly(word) })
	if i < 0 {
		var none T
		return none, usageError(fmt.Errorf("--%s %q: allowed: %s", flag, word, joined(allowed)))
	}
	return values[i], nil
}

// cpuFlag parses a list of CPUs of the machine.
func cpuFlag(flag, list string, all cpuset.Set) (cpuset.Set, error) {
	cpus, err := cpuset.Parse(list)
	if err != nil {
		return cpus, usageError(fmt.Errorf("--%s %q: allowed: a list of CPUs such as 0-3,8: %w", flag, list, err))
	}
	if !cpus.IsSubsetOf(all) {
		return cpus, usageError(fmt.Errorf("--%s %q: there is no CPU %s: allowed: CPUs of the machine, %s", flag, list, cpus.Difference(all), all))
	}
	return cpus, nil
}

// cpuFlags joins the lists of a repeated flag.
func cpuFlags(flag string, lists []string, all cpuset.Set) (cpuset.Set, error) {
	var cpus cpuset.Set
	for _, list := range lists {
		more, err := cpuFlag(flag, list, all)
		if err != nil {
			return cpus, err
		}
		cpus = cpus.Union(more)
	}
	return cpus, nil
}

// machine reads the host, the recorded machine of --root, or the machine of --topology.
func (f *placeFlags) machine(cmd *cobra.Command, g *globals) (*alloc.Machine, error) {
	t, err := f.topology(cmd, g)
	if err != nil {
		return nil, err
	}
	reserved, err := cpuFlags("reserved", f.reserved, t.CPUs())
	if err != nil {
		return nil, err
	}
	described := *t
	described.Reserved = t.Reserved.Union(reserved)
	m, err := alloc.Compile(&described)
	if err != nil {
		return nil, usageError(fmt.Errorf("this machine cannot be placed on: %w", err))
	}
	return m, nil
}

func (f *placeFlags) topology(cmd *cobra.Command, g *globals) (*topology.Topology, error) {
	if f.file == "" {
		tree, closeTree, err := g.openMachine()
		if err != nil {
			return nil, err
		}
		defer closeTree()
		t, err := topology.Discover(tree)
		if err != nil {
			return nil, g.machineError(err)
		}
		return t, nil
	}
	if cmd.Flags().Changed("root") {
		return nil, usageError(errors.New("--topology and --root: allowed: one of them"))
	}
	return orInterrupted(cmd.Context(), func() (*topology.Topology, error) {
		text, err := readFileOr(f.file, cmd.InOrStdin())
		if err != nil {
			return nil, usageError(fmt.Errorf("--topology %s: %w", f.file, err))
		}
		t, err := readTopology(text)
		if err != nil {
			return nil, usageError(fmt.Errorf("--topology %s: allowed: %s: %w", f.file, machineForms, err))
		}
		return t, nil
	})
}

// readFileOr reads a file, or in if the name is "-".
func readFileOr(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in) //nolint:wrapcheck // wrapped with the flag
	}
	return os.ReadFile(name) //nolint:wrapcheck // wrapped with the flag
}
