package alloc

import (
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// ranks lists the L3 domains with eligible CPUs by what each could contribute, to bound whole sets of nodes. The best
// domains of a set are the first ones of a list that are in its nodes.
type ranks struct {
	// l3s is what each L3 domain could contribute, outside what could come from no domain.
	l3s                       []tally
	outside                   tally
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

// fill lists the domains of the nodes of an order, and of no node.
func (rs *ranks) fill(e *eligible, order []candidate) {
	m, p := e.m, e.p
	rs.l3s, rs.outside = resize(rs.l3s, len(m.l3s)), tally{}
	rs.addCells(e, 0, m.homeless)
	for _, o := range order {
		rs.addCells(e, m.nodes[o.node].lo, m.nodes[o.node].hi)
	}
	rs.caps, rs.good, rs.frees, rs.barred = rs.caps[:0], rs.good[:0], rs.frees[:0], rs.barred[:0]
	rs.nodes = grow(rs.nodes, len(m.l3s))
	rs.exact, rs.enough = e.fast && !p.picky, key{noAnswer, noAnswer}
	for i := range rs.l3s {
		t := &rs.l3s[i]
		if t.cap == 0 {
			continue
		}
		rs.nodes[i] = allNodes
		if node := m.l3s[i].node; node == none {
			rs.exact = false
		} else {
			rs.nodes[i] = 1 << slices.IndexFunc(order, func(o candidate) bool { return o.node == node })
		}
		rs.caps.add(-t.cap, i)
		rs.good.add(-t.good, i)
		rs.frees.add(-p.sign()*e.freeL3s[i], i)
		if p.strategy == MostAllocated {
			rs.barred.add(e.freeL3s[i]-t.cap, i)
		}
	}
	slices.Sort(rs.caps)
	slices.Sort(rs.good)
	slices.Sort(rs.frees)
	slices.Sort(rs.barred)
}

// addCells adds the contributions of a range of cells to their domains, or to outside.
func (rs *ranks) addCells(e *eligible, lo, hi int) {
	for c := lo; c < hi; c++ {
		if l3 := e.m.cells[c].l3; l3 == none {
			rs.outside.add(&e.cells[c])
		} else {
			rs.l3s[l3].add(&e.cells[c])
		}
	}
}

// fewest returns the least number of domains in the chosen nodes that hold n CPUs, apart from the CPUs in no domain.
// least is the number of CPUs that each domain of a set of that size must be able to contribute.
func (rs *ranks) fewest(in nodeSet, n int) (count, least int) {
	n -= rs.outside.cap
	for i := 0; n > 0 && i < len(rs.caps); i++ {
		if value, l3 := rs.caps.at(i); rs.nodes[l3]&in != 0 {
			least = n
			n += value
			count++
		}
	}
	return count, least
}

// sum returns the sum of the first count values of domains in the chosen nodes that can contribute at least this many
// CPUs.
func (rs *ranks) sum(list ranking, in nodeSet, count, least int) int {
	total := 0
	for i := 0; count > 0 && i < len(list); i++ {
		if value, l3 := list.at(i); rs.nodes[l3]&in != 0 && rs.l3s[l3].cap >= least {
			total += value
			count--
		}
	}
	return total
}

// rankBound returns a bound from the lists, before the domains are gathered: no answer in the chosen nodes has a better
// key. It returns false if there is a better answer elsewhere, or if the key is certainly worse than against.
func (ns *nodeSearch) rankBound(st *nodeState, against key) (key, bool) {
	e, p, rs := ns.e, ns.e.p, &ns.ranks
	ns.search.budget -= len(rs.caps)
	// Every answer has at least l3s domains. An answer with more is worse; an answer with exactly l3s domains has at
	// most the best l3s values.
	l3s, least := rs.fewest(ns.in, p.n)
	fewest := key{e.setTerms(ns.chosen, p.off(st.preferred), st.distance), fewestRest(l3s)}
	if rs.exact && fewest.compare(rs.enough) < 0 {
		rs.enough = fewest
	}
	if fewest.compare(rs.enough) > 0 || fewest.compare(against) > 0 {
		return key{}, false
	}
	good := rs.outside.good - rs.sum(rs.good, ns.in, l3s, least)
	free := -p.sign() * rs.sum(rs.frees, ns.in, l3s, least)
	free = max(ns.freeL3Bound(free), rs.sum(rs.barred, ns.in, l3s, least))
	_, freeSocket := ns.socketBound(len(ns.order), 0)
	return key{fewest.hi, p.strategy.restTerms(l3s, ns.coreBound(good), min(free, freeMost), p.left(st.free, e.home), freeSocket)}, true
}
