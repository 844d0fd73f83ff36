package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Confirm is Decide for CPUs that were chosen already: it returns a decision for these CPUs, one set for each of the
// Wants, or what forbids them. All policies apply as with Decide, to the CPUs as a whole and to each container. In the
// vector of the answer no other CPU is free, so it compares only with vectors of Confirm.
func Confirm(s *alloc.Scratch, n Node, o *Occupancy, a *Ask, each []cpuset.Set) (Decision, Refusal) {
	if !matches(&a.Request, each) {
		return Decision{}, Refusal{Code: Allocation, Alloc: alloc.Refusal{Code: alloc.BadRequest}}
	}
	return n.confirm(s, o, a, each, union(each))
}

// ConfirmTogether is Confirm for the CPUs of a pod as a whole, before they are divided among containers.
func ConfirmTogether(s *alloc.Scratch, n Node, o *Occupancy, a *Ask, cpus cpuset.Set) (Decision, Refusal) {
	if cpus.Size() != wanted(&a.Request) {
		return Decision{}, Refusal{Code: Allocation, Alloc: alloc.Refusal{Code: alloc.BadRequest}}
	}
	return n.confirm(s, o, a, nil, cpus)
}

// confirm returns a decision for the CPUs, which each divides if it is not nil, or a refusal.
func (n *Node) confirm(s *alloc.Scratch, o *Occupancy, a *Ask, each []cpuset.Set, cpus cpuset.Set) (Decision, Refusal) {
	if n.Machine == nil {
		return Decision{}, Refusal{Code: NoTopology}
	}
	r, refusal := n.request(a)
	if !refusal.OK() {
		return Decision{}, refusal
	}
	with := *r
	with.Amounts = n.amounts(o, a)
	answer, no := n.allocateThese(s, o, &with, cpus)
	if each == nil {
		each = slices.Clone(answer.Each)
	}
	if no.Code == alloc.Placed {
		no = n.wholeCores(r, each)
	}
	if no.Code != alloc.Placed {
		return Decision{}, Refusal{Code: Allocation, Alloc: no}
	}
	free := n.Machine.Topology().Containers().Difference(o.Taken.CPUs())
	if !hasCore(n.Machine, free.Difference(answer.Occupied), o.Unknown) {
		return Decision{}, Refusal{Code: SharedPool, Want: int64(wanted(r)), Have: int64(max(free.Size()-o.Unknown, 0))}
	}
	if refusal = n.enough(o, a, answer.Occupied.Size()-answer.CPUs.Size()); !refusal.OK() {
		return Decision{}, refusal
	}
	copy(answer.Each, each)
	return n.decision(o, a, r, &answer), Refusal{}
}

// matches reports whether the sets are disjoint and as large as the Wants.
func matches(r *alloc.Request, each []cpuset.Set) bool {
	var all cpuset.Set
	ok := len(each) == len(r.Wants)
	for i, cpus := range each {
		ok = ok && cpus.Size() == r.Wants[i].CPUs && !cpus.Intersects(all)
		all = all.Union(cpus)
	}
	return ok
}

// allocateThese asks the allocator for as many CPUs as cpus has, and withholds all others. The allocator could not see
// then whether siblings can stay empty, so allocateThese checks that itself.
func (n *Node) allocateThese(s *alloc.Scratch, o *Occupancy, r *alloc.Request, cpus cpuset.Set) (alloc.Answer, alloc.Refusal) {
	taken, ask := o.Taken, *r
	taken.Withhold(n.Machine.Pinnable().Difference(cpus))
	if ask.Exclusive == alloc.PCPULevel {
		ask.Exclusive = alloc.NotExclusive
	}
	answer, no := n.Machine.Allocate(s, &taken, &ask)
	if no.Code != alloc.Placed || ask.Exclusive == r.Exclusive {
		return answer, no
	}
	var alone alloc.Taken
	n.Machine.Hold(&alone, alloc.Holding{CPUs: cpus, Exclusive: alloc.PCPULevel})
	switch {
	case !alone.CPUs().Intersects(o.Taken.CPUs()):
		answer.Exclusive, answer.Occupied = alloc.PCPULevel, alone.CPUs()
	case r.ExclusiveStrength == alloc.Required:
		return answer, alloc.Refusal{Code: alloc.TooFewExclusive, Want: cpus.Size()}
	default:
		answer.Dropped |= alloc.DroppedExclusive
	}
	return answer, no
}

// wholeCores checks that each set consists of whole cores, if that is required.
func (n *Node) wholeCores(r *alloc.Request, each []cpuset.Set) alloc.Refusal {
	if r.BindStrength != alloc.Required || r.Bind != alloc.FullPCPUs {
		return alloc.Refusal{}
	}
	for _, core := range n.Machine.Topology().Cores {
		for _, cpus := range each {
			if in := core.CPUs.Intersect(cpus); !in.IsEmpty() && in != core.CPUs {
				return alloc.Refusal{Code: alloc.TooFewWholeCores, Want: 1}
			}
		}
	}
	return alloc.Refusal{}
}

func union(sets []cpuset.Set) cpuset.Set {
	var all cpuset.Set
	for _, set := range sets {
		all = all.Union(set)
	}
	return all
}
