package grant

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// Read reads the placement of a pod that asks for CPUs of a machine, or returns why the node cannot follow it. It
// accepts a placement as a whole or not at all. A placement made for another machine is no reason: Read checks its
// CPUs. A pod without a placement has neither a grant nor a reason.
func Read(m *alloc.Machine, pin *workload.Pinning, text string) (Grant, string) {
	if text == "" {
		return Grant{}, ""
	}
	placed, problems := v1alpha1.DecodePlacement(text)
	if len(problems) > 0 {
		return Grant{}, "it cannot be read: " + problems.Line()
	}
	g := Grant{Parts: make(map[string]Part, len(pin.Pinned)), From: ByScheduler}
	r := partReader{machine: m, pin: pin}
	for _, c := range pin.Pinned {
		one, cause := r.part(c, placed.Containers)
		if cause != "" {
			return Grant{}, cause
		}
		g.Parts[c.Name] = one
	}
	if placed.Exclusive == pin.Exclusive {
		g.Exclusive = placed.Exclusive
	}
	g.NUMAExclusive = placed.NUMAExclusive && pin.NUMAExclusive != ""
	// The scheduler counts with HeldBy; both must agree.
	held := placement.HeldBy(m, *pin, text)
	if held.Unknown() > 0 || held.CPUs().IsEmpty() {
		return Grant{}, "it does not say what the pod asks for"
	}
	return g, ""
}

type partReader struct {
	machine *alloc.Machine
	pin     *workload.Pinning
	used    cpuset.Set
}

// part reads the part of one container, or returns what is wrong with it.
func (r *partReader) part(c workload.PinnedContainer, from map[string]v1alpha1.ContainerPlacement) (Part, string) {
	written, found := from[c.Name]
	if !found {
		return Part{}, "it lacks container " + c.Name
	}
	says := PartOf(written)
	cpus, mems := says.CPUs, says.Mems
	if absent := cpus.Difference(r.machine.Pinnable()); !absent.IsEmpty() {
		return Part{}, fmt.Sprintf("container %s: no pod may have CPUs %s on this node", c.Name, absent)
	}
	if many := cpus.Size(); many != c.CPUs && !r.pin.Changed {
		return Part{}, fmt.Sprintf("container %s: %d CPUs for a limit of %d", c.Name, many, c.CPUs)
	}
	if (written.Policy == v1alpha1.PlacementStaticBurst) != r.pin.StaticBurst {
		return Part{}, fmt.Sprintf("container %s: policy %s, which the pod does not ask for", c.Name, written.Policy)
	}
	if cause := r.apart(c.Name, cpus); cause != "" {
		return Part{}, cause
	}
	if at := NodesOf(r.machine, cpus); !at.IsSubsetOf(mems) {
		return Part{}, fmt.Sprintf("container %s: CPUs %s are in NUMA nodes %s, not in %s", c.Name, cpus, at, mems)
	}
	return Part{CPUs: cpus, Mems: mems.Intersect(MemoryNodes(r.machine)), First: says.First}, ""
}

// apart returns what is wrong with the CPUs in view of the pod's other containers, or "".
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
