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
	room []int
}

// divide gives each container its CPUs and returns all of them. These are parts of the union that was found, unless
// that division splits containers needlessly across domains.
func (d *division) divide(s *Scratch, r *Request, try attempt) mask {
	union, p := s.search.cpus, s.p
	d.sort(r.Wants)
	pool := s.eligible.cpus
	if d.each = resize(d.each, len(r.Wants)); len(r.Wants) == 1 {
		d.each[0] = union.set()
		return union
	}
	d.take(s, r, union, d.each)
	torn := s.eligible.m.torn(d.each)
	if torn.l3s <= len(r.Wants) || s.search.budget < 0 || r.Domain != AnyDomain || r.Strategy == DistributeEvenly {
		return union
	}
	nodes := s.eligible.m.nodesOf(&union)
	all := s.eligible.m.cpusOf(nodes)
	if pool.and(&all); !union.within(&all) || !d.least(s.eligible.m, r.Wants, &pool).less(torn) {
		return union
	}
	s.p = p
	if d.other = resize(d.other, len(r.Wants)); !d.take(s, r, pool, d.other) {
		return union
	}
	s.p = p
	s.eligible.frees()
	if other := unionOf(d.other); s.eligible.m.torn(d.other).less(torn) && s.asNear(&other, &union, try) {
		d.each, d.other = d.other, d.each
		return other
	}
	return union
}

// asNear reports whether the first set is as good as the second for the pod as a whole: in NUMA nodes, and in siblings
// that stay empty.
func (s *Scratch) asNear(one, other *mask, try attempt) bool {
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

// take gives each container, the largest first, the best part of the remaining pool. It reports whether the pool
// suffices.
func (d *division) take(s *Scratch, r *Request, pool mask, each []cpuset.Set) bool {
	s.p.part(len(s.eligible.m.nodes))
	for _, i := range d.order {
		if s.p.n, s.p.free = r.Wants[i].CPUs, pool; s.solve().Code != Placed {
			return false
		}
		s.even()
		got := s.search.cpus
		each[i] = got.set()
		if s.p.one {
			got = s.eligible.m.withSiblings(&got)
		}
		pool.andNot(&got)
	}
	return true
}

// tearing is the number of domains that each container of a pod is in, summed over the containers.
type tearing struct{ nodes, l3s int }

func (t tearing) less(o tearing) bool {
	return cmp.Or(cmp.Compare(t.nodes, o.nodes), cmp.Compare(t.l3s, o.l3s)) < 0
}

// least returns a lower bound of tearing for every division of the pool: the domains that the containers need if each
// is alone on its CPUs.
func (d *division) least(m *Machine, wants []Want, pool *mask) (t tearing) {
	d.room = counts(d.room, m.nodeCPUs, pool)
	t.nodes = d.fewest(wants, pool.size())
	d.room = counts(d.room, m.l3CPUs, pool)
	t.l3s = d.fewest(wants, pool.size())
	return t
}

// fewest returns the least number of domains that the containers are in, given room. The remaining CPUs of the pool
// are in no domain and need none.
func (d *division) fewest(wants []Want, pool int) (sum int) {
	slices.SortFunc(d.room, func(a, b int) int { return b - a })
	for _, room := range d.room {
		pool -= room
	}
	for i := range wants {
		for at, left := 0, wants[i].CPUs-pool; at < len(d.room) && left > 0; at++ {
			left -= d.room[at]
			sum++
		}
	}
	return sum
}

func (m *Machine) torn(each []cpuset.Set) (t tearing) {
	for i := range each {
		cpus := mask(each[i].Words())
		t.nodes += m.nodesOf(&cpus).size()
		for _, l3 := range m.l3CPUs {
			if l3.in(&cpus) > 0 {
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
