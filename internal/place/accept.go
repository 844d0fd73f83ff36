package place

import (
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// accept reads the placement of a pod that asks for CPUs, and says why the node cannot
// follow it. A placement counts as a whole or not at all. That it was made for another
// machine is no reason: accept checks the CPUs that it names. A pod without a placement
// has neither a grant nor a reason.
func (s *claims) accept(p *pod, text string) (grant, string) {
	if text == "" {
		return grant{}, ""
	}
	placed, problems := v1alpha1.DecodePlacement(text)
	if len(problems) > 0 {
		return grant{}, "it cannot be read: " + lines(problems)
	}
	g := grant{parts: make(map[string]part, len(p.pin.Pinned)), from: byScheduler}
	r := partReader{machine: s.machine, pin: &p.pin}
	for _, c := range p.pin.Pinned {
		one, cause := r.part(c, placed.Containers)
		if cause != "" {
			return grant{}, cause
		}
		g.parts[c.Name] = one
	}
	if placed.Exclusive == p.pin.Exclusive {
		g.exclusive = placed.Exclusive
	}
	g.numaExclusive = placed.NUMAExclusive && p.pin.NUMAExclusive != ""
	// The scheduler counts by the same reading; both must agree.
	held := placement.HeldBy(s.machine, p.pin, text)
	if held.Unknown() > 0 || held.CPUs().IsEmpty() {
		return grant{}, "it does not say what the pod asks for"
	}
	return g, ""
}

// partReader reads the parts of one placement.
type partReader struct {
	machine *alloc.Machine
	pin     *workload.Pinning
	used    cpuset.Set
}

// part reads what one container is given, and says what is wrong with it.
func (r *partReader) part(c workload.PinnedContainer, from map[string]v1alpha1.ContainerPlacement) (part, string) {
	written, found := from[c.Name]
	if !found {
		return part{}, "it lacks container " + c.Name
	}
	says := partOf(written)
	cpus, mems := says.cpus, says.mems
	if absent := cpus.Difference(r.machine.Pinnable()); !absent.IsEmpty() {
		return part{}, fmt.Sprintf("container %s: no pod may have CPUs %s on this node", c.Name, absent)
	}
	if many := cpus.Size(); many > c.CPUs || many < c.CPUs && !r.pin.Changed {
		return part{}, fmt.Sprintf("container %s: %d CPUs for a limit of %d", c.Name, many, c.CPUs)
	}
	if (written.Policy == v1alpha1.PlacementStaticBurst) != r.pin.StaticBurst {
		return part{}, fmt.Sprintf("container %s: policy %s, which the pod does not ask for", c.Name, written.Policy)
	}
	if cause := r.apart(c.Name, cpus); cause != "" {
		return part{}, cause
	}
	if at := nodesOf(r.machine, cpus); !at.IsSubsetOf(mems) {
		return part{}, fmt.Sprintf("container %s: CPUs %s are in NUMA nodes %s, not in %s", c.Name, cpus, at, mems)
	}
	return part{cpus: cpus, mems: mems.Intersect(memoryNodes(r.machine))}, ""
}

// apart says what is wrong with the CPUs in view of the pod's other containers.
func (r *partReader) apart(name string, cpus cpuset.Set) string {
	switch {
	case r.pin.PerPod && !r.used.IsEmpty() && cpus != r.used:
		return fmt.Sprintf("container %s: the containers share one set of CPUs, and this is another", name)
	case !r.pin.PerPod && cpus.Intersects(r.used):
		return fmt.Sprintf("container %s: CPUs %s are another container's of the pod", name, cpus.Intersect(r.used))
	}
	r.used = r.used.Union(cpus)
	return ""
}

// nodesOf returns the NUMA nodes with memory that the CPUs are in.
func nodesOf(m *alloc.Machine, cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for i := range m.Topology().Nodes {
		if node := &m.Topology().Nodes[i]; node.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(node.ID))
		}
	}
	return nodes.Intersect(memoryNodes(m))
}

// lines joins problems to one sentence.
func lines(problems v1alpha1.FieldErrors) string {
	all := make([]string, len(problems))
	for i, problem := range problems {
		all[i] = problem.Error()
	}
	return strings.Join(all, "; ")
}

// list names the containers of a pod and their CPUs, for events.
func (g *grant) list() string {
	names := slices.Sorted(maps.Keys(g.parts))
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name + " " + g.parts[name].cpus.String()
	}
	return strings.Join(all, ", ")
}

func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return strconv.Itoa(n) + " " + one + "s"
}
