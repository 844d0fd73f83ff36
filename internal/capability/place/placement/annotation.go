package placement

import (
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
)

// Annotation returns the decision as the value of the annotation berth.dev/placement for the pod of a, whose Shape must
// be that of the Ask of the decision. hash is the hash of the node's topology.
func (d *Decision) Annotation(a *Ask, hash string) v1alpha1.Placement {
	p := v1alpha1.Placement{
		V:             v1alpha1.PlacementVersion,
		Topology:      hash,
		Exclusive:     exclusiveText(d.Answer.Exclusive),
		NUMAExclusive: d.Answer.NUMAExclusive,
		Containers:    make(map[string]v1alpha1.ContainerPlacement, len(a.Pod.Pinned)),
	}
	part := v1alpha1.ContainerPlacement{Policy: v1alpha1.PlacementExclusive}
	if a.Pod.StaticBurst {
		part.Policy, part.Domain = v1alpha1.PlacementStaticBurst, domain(&d.Answer)
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

// Held returns what the pod of a holds once the decision is carried out: the result of HeldBy for the annotation.
func (d *Decision) Held(a *Ask) Held {
	claims := make([]claim, len(d.Answer.Each))
	for i := range claims {
		claims[i] = claim{cpus: d.Answer.Each[i], mems: d.nodes(i)}
	}
	return hold(d.machine, &a.Pod, alloc.Holding{Exclusive: d.Answer.Exclusive, SingleNUMA: d.Answer.NUMAExclusive}, claims, nil)
}

// nodes returns the NUMA nodes that the memory of a Want is bound to, 0 for all.
func (d *Decision) nodes(want int) nodeMask {
	if want == 0 {
		return d.first
	}
	return d.others[want-1]
}

// domain returns the name of the smallest domain in which the pod may borrow.
func domain(answer *alloc.Answer) string {
	if answer.OneL3 {
		return "l3:" + strconv.Itoa(int(answer.L3s[0]))
	}
	node, _ := answer.Nodes.Min()
	return "numa:" + strconv.Itoa(node)
}
