package repack

import (
	"iter"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// targets returns the sets of CPUs that a pod could have, except its present set and most sets in which it would be
// worse off. Of sets that differ only in which of some interchangeable cores they are on, it returns the first.
func (s *search) targets(at state, pod int) iter.Seq[cpuset.Set] {
	return func(yield func(cpuset.Set) bool) {
		p := &picker{kinds: s.kinds(at, pod), has: at.held[pod].CPUs(), yield: yield}
		was := &s.pods[pod].origin
		p.nodes, p.l3s, p.split = was.Answer.Vector.NUMANodes, was.Answer.Vector.L3s, was.Answer.Vector.Split
		if was.Bind == alloc.SpreadByPCPUs {
			p.split = p.has.Size()
		}
		p.rest = make([]int, len(p.kinds)+1)
		for i, k := range slices.Backward(p.kinds) {
			p.rest[i] = p.rest[i+1] + len(k.cores)*k.free[0].Size()
		}
		p.pick(pick{left: p.has.Size(), most: p.has.Size()})
	}
}

// picker enumerates sets of CPUs.
type picker struct {
	kinds []kind
	// rest is the number of free CPUs of each kind and the kinds after it.
	rest []int
	has  cpuset.Set
	// nodes, l3s and split are the limits of a set.
	nodes, l3s, split int
	yield             func(cpuset.Set) bool
}

// pick is an incomplete set.
type pick struct {
	cpus cpuset.Set
	// left is how many CPUs are missing.
	left int
	// kind and core are where to continue. The next core of the kind gives at most this many CPUs, so that cores of a
	// kind are used in one order only.
	kind, core, most int
	// nodes and l3s are the IDs of the set's NUMA nodes and L3 domains; split counts the cores that it holds partly.
	nodes, l3s cpuset.Set
	split      int
}

// pick completes a set in all ways, and reports whether to continue.
func (p *picker) pick(at pick) bool {
	if at.left == 0 {
		return at.cpus == p.has || p.yield(at.cpus)
	}
	if at.kind == len(p.kinds) || p.rest[at.kind] < at.left {
		return true
	}
	k := &p.kinds[at.kind]
	if at.core < len(k.cores) {
		for count := min(at.most, at.left, k.free[0].Size()); count > 0; count-- {
			if to := at.take(k, count); to.nodes.Size() <= p.nodes && to.l3s.Size() <= p.l3s && to.split <= p.split && !p.pick(to) {
				return false
			}
		}
	}
	at.kind, at.core, at.most = at.kind+1, 0, at.left
	return p.pick(at)
}

// take adds count CPUs of the next core of a kind.
func (at pick) take(k *kind, count int) pick {
	core := k.cores[at.core]
	at.nodes, at.l3s = at.nodes.Add(int(core.Node)), at.l3s.Add(int(core.L3))
	if count < core.CPUs.Size() {
		at.split++
	}
	taken := 0
	for cpu := range k.free[at.core].All() {
		if taken == count {
			break
		}
		at.cpus = at.cpus.Add(cpu)
		taken++
	}
	at.left, at.most, at.core = at.left-count, count, at.core+1
	return at
}
