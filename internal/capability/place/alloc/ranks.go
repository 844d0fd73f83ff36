package alloc

import (
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ranks lists the L3 domains with eligible CPUs by what each could contribute, to bound whole sets of nodes. The best
// domains of a set are the first ones of a list that are in its nodes.
type ranks struct {
	caps, good, frees, barred ranking
	// nodes has for each domain the position of its node in the order, or all positions for a domain in several nodes.
	nodes []nodeSet
	// exact is true if the counts of domains are exact: no domain is in several nodes, and none is forced. In that
	// case enough is the least key so far of a set of nodes and the fewest domains in it that hold an answer.
	exact  bool
	enough key
}

// ranking is a list of domains, best first. An element is a value (a smaller value is better) times cpuset.Max, plus
// the index of the domain, so that elements sort as numbers.
type ranking []int

func (l *ranking) add(value, l3 int) { *l = append(*l, value*cpuset.Max+l3) }

// at returns the value and the domain at position i.
func (l ranking) at(i int) (value, l3 int) { return l[i] >> maxBits, l[i] & (cpuset.Max - 1) }

// maxBits is the width of an index of a domain.
const maxBits = 10

// rankL3s fills the lists.
func (s *Scratch) rankL3s() {
	rs := &s.nodes.ranks
	rs.caps, rs.good, rs.frees, rs.barred = rs.caps[:0], rs.good[:0], rs.frees[:0], rs.barred[:0]
	rs.nodes = grow(rs.nodes, len(s.capL3s))
	rs.exact, rs.enough = s.eligible.fast && !s.p.picky, key{noAnswer, noAnswer}
	for i, cap := range s.capL3s {
		if cap == 0 {
			continue
		}
		rs.nodes[i] = allNodes
		if node := s.eligible.m.l3s[i].node; node == none {
			rs.exact = false
		} else {
			rs.nodes[i] = 1 << slices.Index(s.nodes.order, node)
		}
		rs.caps.add(-cap, i)
		rs.good.add(-s.goodL3s[i], i)
		if s.p.strategy == LeastAllocated {
			rs.frees.add(-s.eligible.freeL3s[i], i)
		} else {
			rs.frees.add(s.eligible.freeL3s[i], i)
			rs.barred.add(s.eligible.freeL3s[i]-cap, i)
		}
	}
	slices.Sort(rs.caps)
	slices.Sort(rs.good)
	slices.Sort(rs.frees)
	slices.Sort(rs.barred)
	s.search.budget -= workItem * len(rs.caps)
}

// fewestL3sFor returns the least number of domains in the chosen nodes that hold n CPUs. least is the number of CPUs
// that each domain of a set of that size must be able to contribute.
func (s *Scratch) fewestL3sFor(n int) (count, least int) {
	rs := &s.nodes.ranks
	for i := 0; n > 0 && i < len(rs.caps); i++ {
		if value, l3 := rs.caps.at(i); rs.nodes[l3]&s.nodes.in != 0 {
			least = n
			n += value
			count++
		}
	}
	return count, least
}

// rankSum returns the sum of the first count values of domains in the chosen nodes that can contribute at least this
// many CPUs.
func (s *Scratch) rankSum(list ranking, count, least int) int {
	total := 0
	for i := 0; count > 0 && i < len(list); i++ {
		if value, l3 := list.at(i); s.nodes.ranks.nodes[l3]&s.nodes.in != 0 && s.capL3s[l3] >= least {
			total += value
			count--
		}
	}
	return total
}

// rankBound returns a bound from the lists, before the domains are gathered: no answer in the chosen nodes has a
// better key. It returns false if there is a better answer elsewhere, or if the key is certainly worse than against.
func (s *Scratch) rankBound(st *nodeState, against key) (key, bool) {
	ns, p, rs := &s.nodes, &s.p, &s.nodes.ranks
	s.search.budget -= len(rs.caps)
	// Every answer has at least l3s domains. An answer with more is worse; an answer with exactly l3s domains has at
	// most the best l3s values.
	l3s, least := s.fewestL3sFor(p.n - ns.outside)
	fewest := key{s.eligible.setTerms(ns.chosen, p.off(st.preferred), st.distance), fewestRest(l3s)}
	if rs.exact && fewest.compare(rs.enough) < 0 {
		rs.enough = fewest
	}
	if fewest.compare(rs.enough) > 0 || fewest.compare(against) > 0 {
		return key{}, false
	}
	good := ns.outsideGood - s.rankSum(rs.good, l3s, least)
	free := s.rankSum(rs.frees, l3s, least)
	if p.strategy == LeastAllocated {
		free = -free
	}
	free = max(s.freeL3Bound(free), s.rankSum(rs.barred, l3s, least))
	_, freeSocket := s.socketBound(len(ns.order), 0)
	return key{fewest.hi, p.strategy.restTerms(l3s, s.coreBound(good), min(free, freeMost), p.left(st.free, s.eligible.home), freeSocket)}, true
}
