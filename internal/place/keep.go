package place

import (
	"slices"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
)

// refit finds CPUs for a pod that has some already, which it keeps: a container
// that is to have fewer keeps the best of them, one that is to have more gets
// others besides.
//
// For more, the allocator is asked for what is missing: in the L3 domains of the
// container, in its NUMA nodes, and anywhere; with the siblings of its cores
// first, without them, and with no regard to them. Of these the one counts whose
// union with what the pod has is best in the allocator's own order, and which
// placement.Confirm allows. What stays free elsewhere is not compared.
type refit struct {
	scratch *alloc.Scratch
	node    placement.Node
	// others is what all other pods hold.
	others *placement.Occupancy
	ask    *placement.Ask
	// each is by the Wants; own is all that the pod has.
	each []cpuset.Set
	own  cpuset.Set
	// left bounds how many unions are confirmed.
	left int
	// refusal is why there is none, confirmed that Confirm said so.
	refusal   placement.Refusal
	confirmed bool
}

const mostConfirmed = 64

// plenty is more CPU than any node has, in thousandths.
const plenty = 1 << 40

// sizes returns how many CPUs there are in all parts.
func sizes(has map[string]part) int {
	var all cpuset.Set
	for _, one := range has {
		all = all.Union(one.cpus)
	}
	return all.Size()
}

// keep returns the decision that leaves the pod as much as possible of what it
// has by container name.
func keep(f refit, has map[string]part) (placement.Decision, placement.Refusal) {
	wants := f.ask.Request.Wants
	f.left, f.each = mostConfirmed, make([]cpuset.Set, len(wants))
	for i, want := range wants {
		f.each[i] = has[want.Name].cpus
		if f.each[i].Size() > want.CPUs {
			best, no := f.shrink(f.each[i], want)
			if no.Code != alloc.Placed {
				return placement.Decision{}, placement.Refusal{Code: placement.Allocation, Alloc: no}
			}
			f.each[i] = best
		}
		f.own = f.own.Union(f.each[i])
	}
	if f.ask.CPUs() <= sizes(has) {
		// It has as many already: whether the node promised too much is no matter.
		others := *f.others
		others.ExtraMilli = -plenty
		f.others = &others
	}
	if d, found := f.grow(0); found {
		return d, placement.Refusal{}
	}
	return placement.Decision{}, f.refusal
}

// shrink returns the best of the CPUs.
func (f *refit) shrink(cpus cpuset.Set, want alloc.Want) (cpuset.Set, alloc.Refusal) {
	r := f.request(want)
	r.NUMA, r.PreferNodes = alloc.BestEffort, cpuset.Set{}
	answer, no := f.within(cpus, &alloc.Taken{}, &r)
	return answer.CPUs, no
}

// request is the pod's request for one container alone.
func (f *refit) request(want alloc.Want) alloc.Request {
	r := f.ask.Request
	r.Wants, r.Exclusive, r.NUMAExclusive = []alloc.Want{want}, alloc.NotExclusive, alloc.NUMAShared
	r.EfficiencyCores = true // within CPUs that were chosen
	return r
}

// within asks the allocator for some of these CPUs.
func (f *refit) within(cpus cpuset.Set, taken *alloc.Taken, r *alloc.Request) (alloc.Answer, alloc.Refusal) {
	only := *taken
	only.Withhold(f.node.Machine.Pinnable().Difference(cpus))
	return f.node.Machine.Allocate(f.scratch, &only, r)
}

// grow adds what containers from the i-th on lack, the best way first, until
// Confirm agrees.
func (f *refit) grow(i int) (placement.Decision, bool) {
	wants := f.ask.Request.Wants
	for i < len(wants) && f.each[i].Size() == wants[i].CPUs {
		i++
	}
	if i == len(wants) {
		return f.confirm()
	}
	had, own := f.each[i], f.own
	for _, cpus := range f.ways(had, wants[i]) {
		f.each[i], f.own = cpus, own.Union(cpus)
		if d, found := f.grow(i + 1); found {
			return d, true
		}
	}
	f.each[i], f.own = had, own
	return placement.Decision{}, false
}

func (f *refit) confirm() (placement.Decision, bool) {
	if f.left--; f.left < 0 {
		return placement.Decision{}, false
	}
	d, refusal := placement.Confirm(f.scratch, f.node, f.others, f.ask, f.each)
	if !refusal.OK() && !f.confirmed {
		f.refusal, f.confirmed = refusal, true
	}
	return d, refusal.OK()
}

// way is one way to give a container what it lacks.
type way struct {
	cpus   cpuset.Set
	vector alloc.Vector
}

// ways lists what a container could have, the best first.
func (f *refit) ways(had cpuset.Set, want alloc.Want) []cpuset.Set {
	near := had
	if near.IsEmpty() {
		near = f.own
	}
	beside := f.siblings(had, f.node.Machine.Topology().Online.Size())
	var ways []way
	for _, scope := range f.scopes(near) {
		f.try(&ways, scope, had.Union(f.siblings(had, want.CPUs-had.Size())), want)
		f.try(&ways, scope.Difference(beside), had, want)
		f.try(&ways, scope, had, want)
	}
	r := f.ask.Request
	slices.SortFunc(ways, func(a, b way) int {
		if by := a.vector.Compare(b.vector, r.Bind, r.Strategy); by != 0 {
			return by
		}
		return a.cpus.Compare(b.cpus)
	})
	sets := make([]cpuset.Set, len(ways))
	for i := range ways {
		sets[i] = ways[i].cpus
	}
	return slices.Compact(sets)
}

// try adds the best way to fill up a container within a scope.
func (f *refit) try(ways *[]way, scope, had cpuset.Set, want alloc.Want) {
	all, no := f.fill(scope, had, want)
	switch {
	case no.Code != alloc.Placed:
		f.refuse(placement.Refusal{Code: placement.Allocation, Alloc: no})
	case !f.leavesCore(all) && !f.fillBeside(&all, scope, had, want):
		f.refuse(placement.Refusal{Code: placement.SharedPool, Want: int64(want.CPUs - had.Size()), Have: int64(f.free().Size())})
	default:
		*ways = append(*ways, way{cpus: all, vector: f.judge(f.own.Union(all))})
	}
}

// fillBeside is fill where that takes the last whole core of the shared pool:
// one is left to it, the last that can be.
func (f *refit) fillBeside(all *cpuset.Set, scope, had cpuset.Set, want alloc.Want) bool {
	cores := f.node.Machine.Topology().Cores
	for i := range slices.Backward(cores) {
		if !cores[i].CPUs.IsSubsetOf(f.free()) {
			continue
		}
		cpus, no := f.fill(scope.Difference(cores[i].CPUs), had, want)
		if no.Code == alloc.Placed && f.leavesCore(cpus) {
			*all = cpus
			return true
		}
	}
	return false
}

// fill adds to the CPUs of a container what it lacks, in the pod's own NUMA nodes
// as far as possible.
func (f *refit) fill(scope, had cpuset.Set, want alloc.Want) (cpuset.Set, alloc.Refusal) {
	missing := want.CPUs - had.Size()
	if missing <= 0 {
		return had, alloc.Refusal{}
	}
	r := f.ask.Request
	r.Wants, r.NUMA, r.PreferNodes = []alloc.Want{{Name: want.Name, CPUs: missing}}, alloc.BestEffort, f.nodes(f.own)
	answer, no := f.within(scope.Difference(had), &f.others.Taken, &r)
	return had.Union(answer.CPUs), no
}

func (f *refit) leavesCore(but cpuset.Set) bool {
	return hasCore(f.node.Machine, f.free().Difference(but))
}

// refuse remembers why there is no way: what Confirm said counts most, then what
// was said of the widest scope.
func (f *refit) refuse(no placement.Refusal) {
	if !f.confirmed {
		f.refusal = no
	}
}

// judge returns the vector of CPUs as the allocator sees them.
func (f *refit) judge(cpus cpuset.Set) alloc.Vector {
	r := f.request(alloc.Want{CPUs: cpus.Size()})
	r.NUMA, r.BindStrength = alloc.BestEffort, alloc.Preferred
	answer, _ := f.within(cpus, &alloc.Taken{}, &r)
	return answer.Vector
}

// free returns the CPUs that no other pod has, without those of the pod itself.
func (f *refit) free() cpuset.Set {
	return base(f.node.Machine).Difference(f.others.Taken.CPUs()).Difference(f.own)
}

// scopes are where CPUs are looked for: in the L3 domains of those, in their NUMA
// nodes, anywhere.
func (f *refit) scopes(near cpuset.Set) [3]cpuset.Set {
	t, free := f.node.Machine.Topology(), f.free().Intersect(f.node.Machine.Pinnable())
	var inL3, inNode cpuset.Set
	for i := range t.L3 {
		if t.L3[i].CPUs.Intersects(near) {
			inL3 = inL3.Union(t.L3[i].CPUs)
		}
	}
	for i := range t.Nodes {
		if t.Nodes[i].CPUs.Intersects(near) {
			inNode = inNode.Union(t.Nodes[i].CPUs)
		}
	}
	return [3]cpuset.Set{free.Intersect(inL3), free.Intersect(inNode), free}
}

// siblings returns up to so many free siblings of the CPUs, the lowest.
func (f *refit) siblings(of cpuset.Set, most int) cpuset.Set {
	var some cpuset.Set
	free := f.free().Intersect(f.node.Machine.Pinnable())
	for _, core := range f.node.Machine.Topology().Cores {
		if !core.CPUs.Intersects(of) {
			continue
		}
		for cpu := range core.CPUs.Intersect(free).All() {
			if some.Size() < most {
				some = some.Add(cpu)
			}
		}
	}
	return some
}

// nodes returns the NUMA nodes that CPUs are in.
func (f *refit) nodes(cpus cpuset.Set) cpuset.Set {
	var nodes cpuset.Set
	for _, node := range f.node.Machine.Topology().Nodes {
		if node.CPUs.Intersects(cpus) {
			nodes = nodes.Add(int(node.ID))
		}
	}
	return nodes
}
