package grant

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Refit finds CPUs for a pod that keeps its present ones. A container that shrinks keeps the CPUs that it had first,
// else the best of them; a container that grows gets additional CPUs.
//
// To grow, Refit asks the allocator for the missing CPUs in the L3 domains of the container, in its NUMA nodes, and
// anywhere. In each scope it first asks with the siblings of its cores, then without them, then with no regard to them.
// Of the results that placement.Confirm allows, it chooses the one whose union with the pod's CPUs is best in the
// allocator's order. Free CPUs elsewhere are not compared.
type Refit struct {
	Scratch *alloc.Scratch
	Node    placement.Node
	// Others is what all other pods hold.
	Others *placement.Occupancy
	// Leaving are CPUs from before a move: the pod may have them again, and no other pod has them yet.
	Leaving cpuset.Set
	// Ask is what the pod asks for now.
	Ask *placement.Ask
	// each is in the order of the Wants; own is all that the pod has.
	each []cpuset.Set
	own  cpuset.Set
	// left is how many unions may still be confirmed.
	left int
	// refusal is why there is no result; confirmed says that Confirm returned it.
	refusal   placement.Refusal
	confirmed bool
}

const mostConfirmed = 64

// plenty is more CPU than any node has, in thousandths.
const plenty = 1 << 40

// sizes returns the number of CPUs in all parts together.
func sizes(has map[string]Part) int {
	var all cpuset.Set
	for _, one := range has {
		all = all.Union(one.CPUs)
	}
	return all.Size()
}

// Keep returns the decision that leaves the pod as many as possible of its CPUs, given by container name.
func (f Refit) Keep(has map[string]Part) (placement.Decision, placement.Refusal) {
	wants := f.Ask.Request.Wants
	f.left, f.each = mostConfirmed, make([]cpuset.Set, len(wants))
	for i, want := range wants {
		f.each[i] = has[want.Name].CPUs
		if f.each[i].Size() > want.CPUs {
			best, no := f.shrink(has[want.Name], want)
			if no.Code != alloc.Placed {
				return placement.Decision{}, placement.Refusal{Code: placement.Allocation, Alloc: no}
			}
			f.each[i] = best
		}
		f.own = f.own.Union(f.each[i])
	}
	if f.Ask.CPUs() <= sizes(has) {
		// The pod has as many already: it does not matter whether the node promised too much.
		others := *f.Others
		others.ExtraMilli = -plenty
		f.Others = &others
	}
	if d, found := f.grow(0); found {
		return d, placement.Refusal{}
	}
	return placement.Decision{}, f.refusal
}

// shrink returns the CPUs that the container had first and the best of the others. If there are too many first CPUs, it
// returns the best of them. If cores matter, the siblings of the first CPUs come next.
func (f *Refit) shrink(has Part, want alloc.Want) (cpuset.Set, alloc.Refusal) {
	kept, from := has.First, has.CPUs
	if kept.Size() > want.CPUs {
		kept, from = cpuset.Set{}, kept
	}
	if f.Ask.Request.Bind == alloc.FullPCPUs {
		kept = kept.Union(f.siblings(kept, from, want.CPUs-kept.Size()))
	}
	if want.CPUs -= kept.Size(); want.CPUs == 0 {
		return kept, alloc.Refusal{}
	}
	r := f.request(want)
	r.NUMA, r.PreferNodes = alloc.BestEffort, cpuset.Set{}
	answer, no := f.within(from.Difference(kept), &alloc.Taken{}, &r)
	return kept.Union(answer.CPUs), no
}

// request returns the pod's request for one container alone.
func (f *Refit) request(want alloc.Want) alloc.Request {
	r := f.Ask.Request
	r.Wants, r.Exclusive, r.NUMAExclusive = []alloc.Want{want}, alloc.NotExclusive, alloc.NUMAShared
	r.EfficiencyCores = true // the CPUs were chosen already
	return r
}

// within asks the allocator for CPUs from the given set.
func (f *Refit) within(cpus cpuset.Set, taken *alloc.Taken, r *alloc.Request) (alloc.Answer, alloc.Refusal) {
	only := *taken
	only.Withhold(f.Node.Machine.Pinnable().Difference(cpus))
	return f.Node.Machine.Allocate(f.Scratch, &only, r)
}

// grow adds the missing CPUs of the containers from the i-th on, the best way first, until Confirm agrees.
func (f *Refit) grow(i int) (placement.Decision, bool) {
	wants := f.Ask.Request.Wants
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

func (f *Refit) confirm() (placement.Decision, bool) {
	if f.left--; f.left < 0 {
		return placement.Decision{}, false
	}
	d, refusal := placement.Confirm(f.Scratch, f.Node, f.Others, f.Ask, f.each)
	if !refusal.OK() && !f.confirmed {
		f.refusal, f.confirmed = refusal, true
	}
	return d, refusal.OK()
}

// way is one possible set of CPUs for a container that lacks some.
type way struct {
	CPUs   cpuset.Set
	vector alloc.Vector
}

// ways returns the possible sets of CPUs of a container, the best first.
func (f *Refit) ways(had cpuset.Set, want alloc.Want) []cpuset.Set {
	near := had
	if near.IsEmpty() {
		near = f.own
	}
	free := f.free().Intersect(f.Node.Machine.Pinnable())
	beside := f.siblings(had, free, free.Size())
	var ways []way
	for _, scope := range f.scopes(near) {
		f.try(&ways, scope, had.Union(f.siblings(had, free, want.CPUs-had.Size())), want)
		f.try(&ways, scope.Difference(beside), had, want)
		f.try(&ways, scope, had, want)
	}
	r := f.Ask.Request
	slices.SortFunc(ways, func(a, b way) int {
		if by := a.vector.Compare(b.vector, r.Bind, r.Strategy); by != 0 {
			return by
		}
		return a.CPUs.Compare(b.CPUs)
	})
	sets := make([]cpuset.Set, len(ways))
	for i := range ways {
		sets[i] = ways[i].CPUs
	}
	return slices.Compact(sets)
}

// try adds the best way to complete a container within a scope.
func (f *Refit) try(ways *[]way, scope, had cpuset.Set, want alloc.Want) {
	all, no := f.fill(scope, had, want)
	switch {
	case no.Code != alloc.Placed:
		f.refuse(placement.Refusal{Code: placement.Allocation, Alloc: no})
	case !f.leavesCore(all) && !f.fillBeside(&all, scope, had, want):
		f.refuse(placement.Refusal{Code: placement.SharedPool, Want: int64(want.CPUs - had.Size()), Have: int64(f.free().Size())})
	default:
		*ways = append(*ways, way{CPUs: all, vector: f.judge(f.own.Union(all))})
	}
}

// fillBeside replaces fill where fill would use the last whole core of the shared pool: it leaves the last possible
// core free.
func (f *Refit) fillBeside(all *cpuset.Set, scope, had cpuset.Set, want alloc.Want) bool {
	cores := f.Node.Machine.Topology().Cores
	for i := range slices.Backward(cores) {
		if !cores[i].CPUs.IsSubsetOf(f.shared()) {
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

// fill adds the missing CPUs to the CPUs of a container, in the pod's own NUMA nodes as far as possible.
func (f *Refit) fill(scope, had cpuset.Set, want alloc.Want) (cpuset.Set, alloc.Refusal) {
	missing := want.CPUs - had.Size()
	if missing <= 0 {
		return had, alloc.Refusal{}
	}
	r := f.Ask.Request
	r.Wants, r.NUMA, r.PreferNodes = []alloc.Want{{Name: want.Name, CPUs: missing}}, alloc.BestEffort, f.Node.Machine.Topology().NodesOf(f.own)
	answer, no := f.within(scope.Difference(had), &f.Others.Taken, &r)
	return had.Union(answer.CPUs), no
}

func (f *Refit) leavesCore(but cpuset.Set) bool {
	return f.Node.Machine.Topology().HasCore(f.shared().Difference(but))
}

// refuse remembers why there is no way: a reason of Confirm has priority, then the reason for the widest scope.
func (f *Refit) refuse(no placement.Refusal) {
	if !f.confirmed {
		f.refusal = no
	}
}

// judge returns the allocator's vector for CPUs.
func (f *Refit) judge(cpus cpuset.Set) alloc.Vector {
	r := f.request(alloc.Want{CPUs: cpus.Size()})
	r.NUMA, r.BindStrength = alloc.BestEffort, alloc.Preferred
	answer, _ := f.within(cpus, &alloc.Taken{}, &r)
	return answer.Vector
}

// free returns the CPUs that neither this pod nor another pod has.
func (f *Refit) free() cpuset.Set {
	return f.Node.Machine.Topology().Containers().Difference(f.Others.Taken.CPUs()).Difference(f.own)
}

// shared returns the CPUs of the shared pool: the free CPUs without those that the pod leaves.
func (f *Refit) shared() cpuset.Set { return f.free().Difference(f.Leaving) }

// scopes returns the free CPUs in the L3 domains of near, in its NUMA nodes, and anywhere.
func (f *Refit) scopes(near cpuset.Set) [3]cpuset.Set {
	t, free := f.Node.Machine.Topology(), f.free().Intersect(f.Node.Machine.Pinnable())
	var inL3 cpuset.Set
	inNode := t.CPUsOf(t.NodesOf(near))
	for i := range t.L3 {
		if t.L3[i].CPUs.Intersects(near) {
			inL3 = inL3.Union(t.L3[i].CPUs)
		}
	}
	return [3]cpuset.Set{free.Intersect(inL3), free.Intersect(inNode), free}
}

// siblings returns up to most siblings of the CPUs of, out of from: the lowest.
func (f *Refit) siblings(of, from cpuset.Set, most int) cpuset.Set {
	var some cpuset.Set
	for _, core := range f.Node.Machine.Topology().Cores {
		if !core.CPUs.Intersects(of) {
			continue
		}
		for cpu := range core.CPUs.Intersect(from).Difference(of).All() {
			if some.Size() < most {
				some = some.Add(cpu)
			}
		}
	}
	return some
}

const milli = 1000

// AsHas returns what a pod asks for, with its present numbers of CPUs.
func AsHas(pin workload.Pinning, parts map[string]Part) workload.Pinning {
	pin.Pinned = slices.Clone(pin.Pinned)
	for i := range pin.Pinned {
		c := &pin.Pinned[i]
		if has := parts[c.Name].CPUs.Size(); has > 0 {
			c.CPUs, c.Limit = has, int64(has)*milli
		}
	}
	return pin
}
