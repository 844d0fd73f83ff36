package placement

import (
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Annotation returns the decision as the value of the annotation
// berth.dev/placement, for the pod of a, whose Shape must be that of the Ask it
// was decided for. hash is that of the node's topology.
func (d *Decision) Annotation(a *Ask, hash string) v1alpha1.Placement {
	p := v1alpha1.Placement{
		V:          v1alpha1.PlacementVersion,
		Topology:   hash,
		Exclusive:  exclusiveText(d.Answer.Exclusive),
		Containers: make(map[string]v1alpha1.ContainerPlacement, len(a.Pod.Pinned)),
	}
	part := v1alpha1.ContainerPlacement{Policy: v1alpha1.PlacementExclusive}
	if a.Pod.StaticBurst {
		part.Policy, part.Domain = v1alpha1.PlacementStaticBurst, domain(d.machine.Topology(), d.Answer.CPUs)
	}
	for i, c := range a.Pod.Pinned {
		want := i
		if a.Pod.PerPod {
			want = 0
		}
		part.CPUs = d.Answer.Each[want].String()
		part.Mems = d.nodes(want).ids(d.machine.Topology()).String()
		p.Containers[c.Name] = part
	}
	return p
}

// Held returns what the pod of a holds once the decision is carried out: the
// same as HeldBy makes of the annotation.
func (d *Decision) Held(a *Ask) Held {
	claims := make([]claim, len(d.Answer.Each))
	for i := range claims {
		claims[i] = claim{cpus: d.Answer.Each[i], mems: d.nodes(i)}
	}
	exclusive := alloc.NotExclusive
	if d.Answer.Exclusive == a.Request.Exclusive {
		exclusive = d.Answer.Exclusive
	}
	return hold(d.machine, &a.Pod, exclusive, claims)
}

// nodes returns the NUMA nodes that the memory of a Want is bound to, 0 for all.
func (d *Decision) nodes(want int) nodeMask {
	if want == 0 {
		return d.first
	}
	return d.others[want-1]
}

// domain names the smallest domain with all the CPUs that a pod may widen in,
// empty where they are in none.
func domain(t *topology.Topology, cpus cpuset.Set) string {
	for _, l3 := range t.L3 {
		if cpus.IsSubsetOf(l3.CPUs) {
			return "l3:" + strconv.Itoa(int(l3.ID))
		}
	}
	for _, node := range t.Nodes {
		if cpus.IsSubsetOf(node.CPUs) {
			return "numa:" + strconv.Itoa(int(node.ID))
		}
	}
	return ""
}
