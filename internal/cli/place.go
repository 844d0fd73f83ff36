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
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// placeFlags are the words of one berth place.
type placeFlags struct {
	cpus       int
	taken      string
	reserved   string
	policy     string
	exclusive  string
	numa       string
	strategy   string
	file       string
	efficiency bool
	required   bool
}

// placedCPUs is the output of berth place; its JSON is a stable contract.
type placedCPUs struct {
	CPUs      cpuset.Set `json:"cpus"`
	Mems      cpuset.Set `json:"mems"`
	NUMANodes []int      `json:"numaNodes"`
	L3        []int      `json:"l3"`
	// SplitCores counts the cores of which the answer holds a part only.
	SplitCores int         `json:"splitCores"`
	Why        []placedWhy `json:"why"`

	machine     *topology.Topology
	open, taken cpuset.Set // what could be had, and what others have
}

// placedWhy is one reason for these CPUs.
type placedWhy struct {
	Term  string `json:"term"`
	Value int    `json:"value"`
	Best  int    `json:"best"`
	Text  string `json:"text"`
}

func newPlaceCommand(g *globals) *cobra.Command {
	var f placeFlags
	cmd := &cobra.Command{
		Use:   "place --cpus N",
		Short: "Choose CPUs on this machine, or on a described one",
		Long: `Chooses CPUs for one container, by the same rules as the scheduler and the agent,
and says why these. It only computes: nothing is pinned and nothing is remembered.

Policies are preferences: where they cannot be had, the next best answer is
given and the reasons say so. With --required they are conditions.
--taken are CPUs that others have for themselves, --reserved are kept for the
system. mems are the NUMA nodes of the answer that have memory: how much memory
the container needs is not known here, so it is never widened for lack of it.

Exit code 1 says that it does not fit, and why.`,
		Example: `  berth place --cpus 4
  berth place --cpus 8 --taken 0-3,32-35 --numa-policy SingleNUMANode --required
  berth topology -o json >machine.json
  berth place --cpus 4 --policy SpreadByPCPUs --topology machine.json -o json`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			format, err := g.format("table", "json", "yaml")
			if err != nil {
				return err
			}
			p, err := f.place(cmd, g)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), format, p, p.print)
		},
	}
	f.register(cmd)
	return cmd
}

func (f *placeFlags) register(cmd *cobra.Command) {
	fs := cmd.Flags()
	fs.IntVar(&f.cpus, "cpus", 0, "how many CPUs, 1 or more")
	fs.StringVar(&f.taken, "taken", "", "CPUs that others have for themselves, a `LIST` such as 0-3,8")
	fs.StringVar(&f.reserved, "reserved", "", "CPUs kept for the system, a `LIST`")
	fs.StringVar(&f.policy, "policy", string(v1alpha1.CPUBindFullPCPUs), "how the CPUs lie on cores: "+joined(bindPolicies()))
	fs.StringVar(&f.exclusive, "exclusive", string(v1alpha1.CPUExclusiveNone), "what is not shared with others: "+joined(v1alpha1.CPUExclusivePolicies()))
	fs.StringVar(&f.numa, "numa-policy", string(v1alpha1.NUMABestEffort), "over how many NUMA nodes: "+joined(v1alpha1.NUMATopologyPolicies()))
	fs.StringVar(&f.strategy, "strategy", string(v1alpha1.NUMAMostAllocated), "which of equally near CPUs: "+joined(v1alpha1.NUMAAllocateStrategies()))
	fs.BoolVar(&f.efficiency, "efficiency-cores", false, "also use efficiency cores")
	fs.BoolVar(&f.required, "required", false, "the policies are conditions, not preferences")
	fs.StringVar(&f.file, "topology", "", "the machine in this `FILE` (as berth topology -o json prints it) instead of the host; - is standard input")
	for name, allowed := range map[string][]string{
		"policy": texts(bindPolicies()), "exclusive": texts(v1alpha1.CPUExclusivePolicies()),
		"numa-policy": texts(v1alpha1.NUMATopologyPolicies()), "strategy": texts(v1alpha1.NUMAAllocateStrategies()),
	} {
		_ = cmd.RegisterFlagCompletionFunc(name, // fails only for a flag that is not there
			cobra.FixedCompletions(allowed, cobra.ShellCompDirectiveNoFileComp))
	}
}

// bindPolicies are those of a pod, without the one that only means the first.
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

// place reads the flags and the machine, and asks the allocator.
func (f *placeFlags) place(cmd *cobra.Command, g *globals) (*placedCPUs, error) {
	request, err := f.request()
	if err != nil {
		return nil, err
	}
	m, err := f.machine(cmd, g)
	if err != nil {
		return nil, err
	}
	taken, err := cpuFlag("taken", f.taken, m.Topology().CPUs())
	if err != nil {
		return nil, err
	}
	return f.choose(m, taken, request)
}

// request turns the flags into a request.
func (f *placeFlags) request() (alloc.Request, error) {
	r := alloc.Request{Wants: []alloc.Want{{Name: "cpus", CPUs: f.cpus}}, EfficiencyCores: f.efficiency}
	if f.cpus < 1 || f.cpus > cpuset.Max {
		return r, usageError(fmt.Errorf("--cpus %d: allowed: 1 to %d", f.cpus, cpuset.Max))
	}
	if f.required {
		r.BindStrength, r.ExclusiveStrength = alloc.Required, alloc.Required
	}
	var errs [4]error
	var policy v1alpha1.CPUBindPolicy
	policy, errs[0] = choice("policy", f.policy, texts(bindPolicies()), bindPolicies())
	switch policy {
	case v1alpha1.CPUBindSpreadByPCPUs:
		r.Bind = alloc.SpreadByPCPUs
	case v1alpha1.CPUBindConstrainedBurst:
		r.Domain, r.BindStrength = alloc.OneL3ElseNUMA, alloc.Preferred // an odd count is no reason to refuse
	}
	r.Exclusive, errs[1] = choice("exclusive", f.exclusive, texts(v1alpha1.CPUExclusivePolicies()),
		[]alloc.Exclusive{alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel})
	r.NUMA, errs[2] = choice("numa-policy", f.numa, texts(v1alpha1.NUMATopologyPolicies()),
		[]alloc.NUMAPolicy{alloc.BestEffort, alloc.Restricted, alloc.SingleNUMANode})
	r.Strategy, errs[3] = choice("strategy", f.strategy, texts(v1alpha1.NUMAAllocateStrategies()),
		[]alloc.Strategy{alloc.MostAllocated, alloc.LeastAllocated})
	return r, errors.Join(errs[:]...)
}

// choice is the value that a flag's word stands for. Small letters and hyphens
// do, as other flags have them: full-pcpus is FullPCPUs.
func choice[T any](flag, word string, allowed []string, values []T) (T, error) {
	plainly := func(s string) string { return strings.ToLower(strings.ReplaceAll(s, "-", "")) }
	i := slices.IndexFunc(allowed, func(s string) bool { return plainly(s) == plainly(word) })
	if i < 0 {
		var none T
		return none, usageError(fmt.Errorf("--%s %q: allowed: %s", flag, word, joined(allowed)))
	}
	return values[i], nil
}

// cpuFlag reads a list of CPUs that the machine has.
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

// machine reads the host, the recorded machine of --root or the described one
// of --topology.
func (f *placeFlags) machine(cmd *cobra.Command, g *globals) (*alloc.Machine, error) {
	t, err := f.topology(cmd, g)
	if err != nil {
		return nil, err
	}
	reserved, err := cpuFlag("reserved", f.reserved, t.CPUs())
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
	text, err := readFileOr(f.file, cmd.InOrStdin())
	if err != nil {
		return nil, usageError(fmt.Errorf("--topology %s: %w", f.file, err))
	}
	t, err := topology.Decode(text)
	if err != nil {
		return nil, usageError(fmt.Errorf("--topology %s: %w", f.file, err))
	}
	return t, nil
}

// readFileOr reads a file, or in for "-".
func readFileOr(name string, in io.Reader) ([]byte, error) {
	if name == "-" {
		return io.ReadAll(in) //nolint:wrapcheck // wrapped with the flag
	}
	return os.ReadFile(name) //nolint:wrapcheck // wrapped with the flag
}

// choose asks the allocator. A bound on NUMA nodes or domains that is only
// preferred gives way where it cannot be had: fewest first is the allocator's
// own order.
func (f *placeFlags) choose(m *alloc.Machine, taken cpuset.Set, r alloc.Request) (*placedCPUs, error) {
	var occupied alloc.Taken
	if !taken.IsEmpty() {
		m.Hold(&occupied, alloc.Holding{CPUs: taken})
	}
	var scratch alloc.Scratch
	answer, refusal := m.Allocate(&scratch, &occupied, &r)
	gaveWay := refusal.Code != 0 && !f.required && (r.NUMA != alloc.BestEffort || r.Domain != alloc.AnyDomain)
	if gaveWay {
		r.NUMA, r.Domain = alloc.BestEffort, alloc.AnyDomain
		answer, refusal = m.Allocate(&scratch, &occupied, &r)
	}
	if refusal.Code != 0 {
		return nil, fmt.Errorf("does not fit: %s", refusal.Detail())
	}
	p := placedFrom(m.Topology(), &answer)
	p.open, p.taken = m.Pinnable(), taken
	if !f.efficiency {
		p.open = p.open.Difference(efficiencyCPUs(m.Topology()))
	}
	if gaveWay {
		p.Why = append(p.Why, placedWhy{Term: "policy", Text: fmt.Sprintf("--policy %s with --numa-policy %s cannot be had and was only preferred", f.policy, f.numa)})
	}
	return p, nil
}

func placedFrom(t *topology.Topology, a *alloc.Answer) *placedCPUs {
	p := &placedCPUs{CPUs: a.CPUs, Mems: memoryNodes(t, a.CPUs), NUMANodes: []int{}, L3: []int{}, Why: []placedWhy{}, machine: t}
	for _, n := range t.Nodes {
		if n.CPUs.Intersects(a.CPUs) {
			p.NUMANodes = append(p.NUMANodes, int(n.ID))
		}
	}
	for _, domain := range t.L3 {
		if domain.CPUs.Intersects(a.CPUs) {
			p.L3 = append(p.L3, int(domain.ID))
		}
	}
	for _, core := range t.Cores {
		if core.CPUs.Intersects(a.CPUs) && !core.CPUs.IsSubsetOf(a.CPUs) {
			p.SplitCores++
		}
	}
	for _, reason := range a.Why() {
		p.Why = append(p.Why, placedWhy(reason))
	}
	return p
}

// memoryNodes are the NUMA nodes of the CPUs that have memory. Where none of
// them has, all nodes with memory are as far as any; where no memory is known
// of the machine, the nodes of the CPUs are as good a word as any.
func memoryNodes(t *topology.Topology, cpus cpuset.Set) cpuset.Set {
	var own, local, all cpuset.Set
	for _, n := range t.Nodes {
		if n.CPUs.Intersects(cpus) {
			own = own.Add(int(n.ID))
		}
		if n.MemoryBytes > 0 {
			all = all.Add(int(n.ID))
		}
	}
	local = own.Intersect(all)
	switch {
	case !local.IsEmpty():
		return local
	case !all.IsEmpty():
		return all
	default:
		return own
	}
}

// print shows the cores of the machine with the chosen CPUs.
func (p *placedCPUs) print(w io.Writer) error {
	paint := paintFor(w)
	domains := strings.Join(append(numbered("NUMA node", p.NUMANodes), numbered("L3", p.L3)...), ", ")
	memory := strings.Join(numbered("NUMA node", slices.Collect(p.Mems.All())), "")
	if _, err := fmt.Fprintf(w, "%s: %s; memory of %s\n\n", paint(bold, cpusText(p.CPUs)), domains, memory); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	err := drawCores(w, p.machine, "  ", func(cpu int) rune {
		switch {
		case p.CPUs.Contains(cpu):
			return signChosen
		case p.taken.Contains(cpu):
			return signTaken
		case !p.open.Contains(cpu):
			return signOff
		default:
			return signFree
		}
	})
	if err != nil {
		return err
	}
	var text strings.Builder
	text.WriteString("\n  one word a core, one sign a thread: # chosen, x taken, - not to be had, . free\n\nwhy\n")
	for _, why := range p.Why {
		text.WriteString("  " + why.Text + "\n")
	}
	if _, err := io.WriteString(w, text.String()); err != nil {
		return fmt.Errorf("write output: %w", err)
	}
	return nil
}

func numbered(what string, ids []int) []string {
	switch len(ids) {
	case 0:
		return nil
	case 1:
		return []string{fmt.Sprintf("%s %d", what, ids[0])}
	}
	if what != "L3" {
		what += "s"
	}
	return []string{what + " " + strings.ReplaceAll(strings.Trim(fmt.Sprint(ids), "[]"), " ", ",")}
}
