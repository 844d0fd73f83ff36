package repack

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostThreads is the most CPUs that a core may have: more than any core has.
const mostThreads = 8

// Owners of CPUs that are not the index of a pod.
const (
	// absent is a CPU that the core does not have.
	absent int16 = -3 + iota
	// fixed is a CPU that no pod of the plan can have.
	fixed
	// free is a CPU that any pod can have.
	free
)

// signature is equal for interchangeable cores: in one NUMA node and L3 domain, with as many CPUs of each owner.
type signature struct {
	node   topology.NodeID
	l3     topology.L3ID
	owners [mostThreads]int16
}

// compare orders signatures, and groups them by NUMA node and L3 domain.
func (g signature) compare(o signature) int {
	return cmp.Or(cmp.Compare(g.node, o.node), cmp.Compare(g.l3, o.l3), slices.Compare(g.owners[:], o.owners[:]))
}

// sum returns a hash of the signature.
func (g signature) sum() uint64 {
	h := mix(mix(0, uint64(g.node)), uint64(g.l3))
	for _, owner := range g.owners {
		h = mix(h, uint64(owner))
	}
	return h
}

// mix adds a number to a hash, as splitmix64 does.
func mix(h, n uint64) uint64 {
	h = (h ^ n) + 0x9E3779B97F4A7C15
	h = (h ^ h>>30) * 0xBF58476D1CE4E5B9
	h = (h ^ h>>27) * 0x94D049BB133111EB
	return h ^ h>>31
}

// survey records which CPUs the pods of the plan can have at all. It returns false if a core has more than mostThreads
// CPUs.
func (s *search) survey() bool {
	t := s.node.Machine.Topology()
	given := s.node.Given().Difference(s.node.Fixed.Taken.CPUs())
	most, _ := t.Online.Max()
	s.base = make([]int16, most+1)
	for cpu := range s.base {
		s.base[cpu] = fixed
		if given.Contains(cpu) {
			s.base[cpu] = free
		}
	}
	return !slices.ContainsFunc(t.Cores, func(c topology.Core) bool { return c.CPUs.Size() > mostThreads })
}

// owners returns the owner of each CPU, without the CPUs of pod but.
func (s *search) owners(at state, but int) []int16 {
	owners := slices.Clone(s.base)
	for i := range at.held {
		if i == but {
			continue
		}
		for cpu := range at.held[i].Occupied(s.node.Machine).All() {
			owners[cpu] = int16(i)
		}
	}
	return owners
}

// signatureOf returns the signature of a core, and its free CPUs.
func signatureOf(core *topology.Core, owners []int16) (g signature, left cpuset.Set) {
	g.node, g.l3 = core.Node, core.L3
	n := 0
	for cpu := range core.CPUs.All() {
		g.owners[n] = owners[cpu]
		if n++; owners[cpu] == free {
			left = left.Add(cpu)
		}
	}
	for ; n < mostThreads; n++ {
		g.owners[n] = absent
	}
	slices.Sort(g.owners[:])
	return g, left
}

// isNew reports whether a state is new, and records it. A state is not new if a known one differs only in which of some
// interchangeable cores pods have. States are identified by a hash of 128 bits.
func (s *search) isNew(at state) bool {
	owners, key := s.owners(at, nobody), [2]uint64{}
	for i := range s.node.Machine.Topology().Cores {
		g, _ := signatureOf(&s.node.Machine.Topology().Cores[i], owners)
		sum := g.sum()
		key[0] += sum
		key[1] += mix(sum, 1)
	}
	for i, dropped := range at.dropped {
		key[0] += mix(uint64(i), uint64(dropped))
	}
	if s.seen[key] {
		return false
	}
	s.seen[key] = true
	return true
}

// kind is a group of interchangeable cores with free CPUs.
type kind struct {
	signature
	cores []*topology.Core
	// free are the free CPUs of each of the cores, in the order of cores.
	free []cpuset.Set
}

// kinds groups the cores that have CPUs which are free for a pod.
func (s *search) kinds(at state, pod int) []kind {
	owners, index := s.owners(at, pod), map[signature]int{}
	var all []kind
	for i := range s.node.Machine.Topology().Cores {
		core := &s.node.Machine.Topology().Cores[i]
		g, left := signatureOf(core, owners)
		if left.IsEmpty() {
			continue
		}
		k, known := index[g]
		if !known {
			k = len(all)
			index[g] = k
			all = append(all, kind{signature: g})
		}
		all[k].cores, all[k].free = append(all[k].cores, core), append(all[k].free, left)
	}
	slices.SortFunc(all, func(a, b kind) int { return a.compare(b.signature) })
	return all
}
