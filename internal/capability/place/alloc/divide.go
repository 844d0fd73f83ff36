package alloc

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// division divides the CPUs of a pod among its containers.
type division struct {
	// order holds the containers, the largest first. each holds their CPUs, other the CPUs of the second division.
	order       []int
	each, other []cpuset.Set
	// room is the number of CPUs of each domain of one kind.
	room    []int
	packing packing
}

// divide gives each container its CPUs and returns all of them. These are parts of the union that was found, unless
// that division splits containers needlessly across domains.
func (d *division) divide(s *Scratch, r *Request, try attempt) mask {
	union, p, m := s.search.cpus, s.p, s.eligible.m
	d.sort(r.Wants)
	pool := s.eligible.cpus
	if d.each = resize(d.each, len(r.Wants)); len(r.Wants) == 1 {
		d.each[0] = union.set()
		return union
	}
	d.first(s, r, union)
	torn := m.torn(d.each)
	if torn.l3s <= len(r.Wants) || s.search.budget < 0 || r.Domain != AnyDomain {
		return union
	}
	all := m.cpusOf(m.nodesOf(&union))
	if pool.and(&all); !union.within(&all) {
		return union
	}
	s.p = p
	if r.Strategy != DistributeEvenly && d.second(s, r, pool, torn) {
		s.p = p
		union = d.choose(s, r, union, try)
	}
	if torn = m.torn(d.each); torn.l3s <= len(r.Wants) {
		return union
	}
	s.p = p
	if d.whole(s, r, pool, union) && m.torn(d.other).less(torn) {
		s.p = p
		union = d.choose(s, r, union, try)
	}
	return union
}

// choose chooses the other division if that is as good as the union for the pod and leaves no node of Span, and returns
// the CPUs of the division.
func (d *division) choose(s *Scratch, r *Request, union mask, try attempt) mask {
	other, m := unionOf(d.other), s.eligible.m
	if left := m.nodesOf(&union) &^ m.nodesOf(&other); left&r.spanNodes(m) != 0 || !s.asNear(&other, &union, try) {
		return union
	}
	d.each, d.other = d.other, d.each
	return other
}

// asNear reports whether the first set is as good as the second for the pod as a whole: in NUMA nodes, and in siblings
// that stay empty.
func (s *Scratch) asNear(one, other *mask, try attempt) bool {
	if m := s.eligible.m; try.exclusive != PCPULevel && !s.p.picky && m.nodesOf(one) == m.nodesOf(other) {
		return true // The nodes alone determine how near the set is.
	}
	s.eligible.frees()
	v, o := s.eligible.vector(one), s.eligible.vector(other)
	return s.p.keyOf(&v).hi <= s.p.keyOf(&o).hi && (try.exclusive != PCPULevel || v.Split <= o.Split)
}

// sort lists the containers, the largest first.
func (d *division) sort(wants []Want) {
	d.order = resize(d.order, len(wants))
	for i := range d.order {
		d.order[i] = i
	}
	slices.SortFunc(d.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(wants[b].CPUs, wants[a].CPUs), cmp.Compare(wants[a].Name, wants[b].Name), cmp.Compare(a, b))
	})
}

// first divides the union: each container, the largest first, gets the best part of what remains. The last one gets
// all that remains, so it needs no search.
func (d *division) first(s *Scratch, r *Request, union mask) {
	s.p.part(len(s.eligible.m.nodes))
	last := len(d.order) - 1
	for _, i := range d.order[:last] {
		d.take(s, r.Wants[i].CPUs, &union, &d.each[i])
	}
	d.each[d.order[last]] = union.set()
}

// second divides the pool in the same way and reports whether this splits containers less than torn. It stops as soon
// as the other containers cannot make up for those that have their CPUs.
func (d *division) second(s *Scratch, r *Request, pool mask, torn tearing) bool {
	m := s.eligible.m
	s.p.part(len(m.nodes))
	d.other = resize(d.other, len(r.Wants))
	for k, i := range d.order {
		if !d.mayBeat(m, r.Wants, k, &pool, torn) || !d.take(s, r.Wants[i].CPUs, &pool, &d.other[i]) {
			return false
		}
		torn = torn.minus(m.torn(d.other[i : i+1]))
	}
	return tearing{}.less(torn)
}

// take gives a container the best n CPUs of the pool and removes them from the pool. It reports whether the pool
// suffices.
func (d *division) take(s *Scratch, n int, pool *mask, each *cpuset.Set) bool {
	if s.p.n, s.p.free = n, *pool; s.solve().Code != Placed {
		return false
	}
	s.even()
	got := s.search.cpus
	*each = got.set()
	if s.p.one {
		got = s.eligible.m.withSiblings(&got)
	}
	pool.andNot(&got)
	return true
}

// tearing is the number of domains that each container of a pod is in, summed over the containers.
type tearing struct{ nodes, l3s int }

func (t tearing) less(o tearing) bool {
	return cmp.Or(cmp.Compare(t.nodes, o.nodes), cmp.Compare(t.l3s, o.l3s)) < 0
}

func (t tearing) minus(o tearing) tearing { return tearing{t.nodes - o.nodes, t.l3s - o.l3s} }

// mayBeat reports whether the containers from position k of the order on are split less than torn if each is alone on
// the pool. If they are not, no division of the pool among them is better.
func (d *division) mayBeat(m *Machine, wants []Want, k int, pool *mask, torn tearing) bool {
	nodes := d.fewest(m.nodeCPUs, wants, k, pool)
	return nodes < torn.nodes || nodes == torn.nodes && d.fewest(m.l3CPUs, wants, k, pool) < torn.l3s
}

// fewest returns the least number of domains that these containers are in. The CPUs of the pool that are in no domain
// need none.
func (d *division) fewest(domains []sparse, wants []Want, k int, pool *mask) (sum int) {
	outside := pool.size()
	d.room = d.room[:0]
	for _, domain := range domains {
		if in := domain.in(pool); in > 0 {
			d.room = append(d.room, -in)
			outside -= in
		}
	}
	slices.Sort(d.room)
	for _, i := range d.order[k:] {
		for at, left := 0, wants[i].CPUs-outside; at < len(d.room) && left > 0; at++ {
			left += d.room[at]
			sum++
		}
	}
	return sum
}

func (m *Machine) torn(each []cpuset.Set) (t tearing) {
	for i := range each {
		cpus := mask(each[i].Words())
		nodes := m.nodesOf(&cpus)
		t.nodes += nodes.size()
		for k := range m.l3s {
			if node := m.l3s[k].node; (node == none || nodes.has(node)) && m.l3CPUs[k].meets(&cpus) {
				t.l3s++
			}
		}
	}
	return t
}

func unionOf(each []cpuset.Set) (all mask) {
	for i := range each {
		cpus := mask(each[i].Words())
		all.or(&cpus)
	}
	return all
}
