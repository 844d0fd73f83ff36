package grant

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
)

// Read reads the decoded placement of a pod that asks for CPUs of a machine, or returns why the node cannot follow it.
// It accepts a placement as a whole or not at all. A placement made for another machine is no reason: Read checks its
// CPUs. A pod without a placement has neither a grant nor a reason. bad are problems of its decoding.
func Read(m *alloc.Machine, pin *workload.Pinning, p v1alpha1.Placement, bad v1alpha1.FieldErrors) (Grant, string) {
	if len(bad) > 0 {
		return Grant{}, "it cannot be read: " + bad.Line()
	}
	if len(p.Containers) == 0 {
		return Grant{}, ""
	}
	g := Grant{Parts: make(map[string]Part, len(pin.Pinned)), From: ByScheduler}
	r := placement.Reader{Machine: m, Pod: pin, Placed: p}
	for _, c := range pin.Pinned {
		part, doubt := r.Read(&c)
		if cause := refusal(&r, &c, &part, doubt); cause != "" {
			return Grant{}, cause
		}
		r.Used = r.Used.Union(part.CPUs)
		part.Mems = part.Mems.Intersect(m.Topology().MemoryNodes())
		g.Parts[c.Name] = Part(part)
	}
	g.Exclusive, g.NUMAExclusive = r.Exclusive()
	// The scheduler does not believe lists with different texts, even if they have the same CPUs.
	if pin.PerPod && !r.Agree(pin.Pinned) {
		return Grant{}, "it does not say what the pod asks for"
	}
	return g, ""
}

// refusal returns why the node cannot follow the part of a container, or "".
func refusal(r *placement.Reader, c *workload.PinnedContainer, p *placement.Part, doubt placement.Doubt) string {
	t, why, policy := r.Machine.Topology(), "", r.Placed.Containers[c.Name].Policy
	at := t.NodesOf(p.CPUs).Intersect(t.MemoryNodes())
	switch {
	case doubt == placement.Missing:
		return "it lacks container " + c.Name
	case doubt == placement.Absent:
		why = fmt.Sprintf("no pod may have CPUs %s on this node", p.CPUs.Difference(r.Machine.Pinnable()))
	case doubt == placement.Miscounted:
		why = fmt.Sprintf("%d CPUs for a limit of %d", p.CPUs.Size(), c.CPUs)
	case (policy == v1alpha1.PlacementStaticBurst) != r.Pod.StaticBurst:
		why = fmt.Sprintf("policy %s, which the pod does not ask for", policy)
	case r.Pod.PerPod && !r.Used.IsEmpty() && p.CPUs != r.Used:
		why = "the containers share one set of CPUs, and this is another"
	case !r.Pod.PerPod && doubt == placement.Shared:
		why = fmt.Sprintf("CPUs %s are another container's of the pod", p.CPUs.Intersect(r.Used))
	case !at.IsSubsetOf(p.Mems):
		why = fmt.Sprintf("CPUs %s are in NUMA nodes %s, not in %s", p.CPUs, at, p.Mems)
	default:
		return ""
	}
	return "container " + c.Name + ": " + why
}
