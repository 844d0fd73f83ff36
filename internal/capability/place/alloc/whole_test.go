package alloc_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// halls are the L3 domains of the nodes of an answer. room is the number of CPUs of each that containers can have, and
// of its node. share is how many CPUs each node must give, or nil for any number.
type halls struct{ room, of, share []int }

// fit reports by brute force whether each container fits into one domain.
func (h *halls) fit(wants []alloc.Want) bool {
	if len(wants) == 0 {
		return true
	}
	n := wants[0].CPUs
	for i := range h.room {
		if h.room[i] < n || h.share != nil && h.share[h.of[i]] < n {
			continue
		}
		h.give(i, n)
		ok := h.fit(wants[1:])
		h.give(i, -n)
		if ok {
			return true
		}
	}
	return false
}

func (h *halls) give(i, n int) {
	h.room[i] -= n
	if h.share != nil {
		h.share[h.of[i]] -= n
	}
}

// domains returns the CPUs of each L3 domain.
func domains(t *topology.Topology) []cpuset.Set {
	all := make([]cpuset.Set, len(t.L3))
	for _, c := range t.Cores {
		i := slices.IndexFunc(t.L3, func(d topology.L3) bool { return d.ID == c.L3 })
		all[i] = all[i].Union(c.CPUs)
	}
	return all
}

// hallsOf returns the domains of an answer. With even, the nodes give as many CPUs as in the answer.
func hallsOf(t *topology.Topology, a *alloc.Answer, free cpuset.Set, even bool) (h halls) {
	if even {
		h.share = make([]int, len(t.Nodes))
	}
	for _, cpus := range domains(t) {
		low, _ := cpus.Min()
		core := t.Cores[slices.IndexFunc(t.Cores, func(c topology.Core) bool { return c.CPUs.Contains(low) })]
		i := slices.IndexFunc(t.Nodes, func(n topology.Node) bool { return n.ID == core.Node })
		if even {
			h.share[i] += cpus.Intersect(a.CPUs).Size()
		}
		if a.Nodes.Contains(int(core.Node)) {
			h.room, h.of = append(h.room, cpus.Intersect(free).Size()), append(h.of, i)
		}
	}
	return h
}

// splits reports whether a container is in several L3 domains.
func splits(t *topology.Topology, each []cpuset.Set) bool {
	return slices.ContainsFunc(each, func(cpus cpuset.Set) bool {
		return !slices.ContainsFunc(domains(t), cpus.IsSubsetOf)
	})
}

// TestNoContainerIsSplitNeedlessly: no container is in several L3 domains if the CPUs of the pod, or other free CPUs of
// the same NUMA nodes, can be divided without that. With DistributeEvenly, each node gives as many CPUs as before.
func TestNoContainerIsSplitNeedlessly(t *testing.T) {
	var s alloc.Scratch
	shapes := []shape{{1, 1, 2, 4, 2}, {1, 1, 3, 4, 2}, {1, 2, 2, 3, 2}, {1, 2, 3, 2, 2}, {2, 1, 2, 4, 2}, {1, 1, 3, 8, 1}, {1, 1, 4, 6, 1}, {1, 3, 2, 3, 1}, {1, 2, 2, 2, 4}}
	rapid.Check(t, func(t *rapid.T) {
		d := newDice(rapid.Uint64().Draw(t, "seed"))
		m := compile(t, drawOf(d, shapes...).topology())
		held := drawSubset(d, m.Pinnable(), d.between(2, 8))
		var taken alloc.Taken
		m.Hold(&taken, alloc.Holding{CPUs: held})
		r := &alloc.Request{
			Strategy: drawOf(d, alloc.MostAllocated, alloc.LeastAllocated, alloc.DistributeEvenly),
			Bind:     drawOf(d, alloc.FullPCPUs, alloc.SpreadByPCPUs),
		}
		for range d.between(2, 5) {
			r.Wants = append(r.Wants, alloc.Want{CPUs: d.between(1, 6)})
		}
		a, no := m.Allocate(&s, &taken, r)
		if no.Code != alloc.Placed || !splits(m.Topology(), a.Each) {
			return
		}
		free := m.Pinnable().Difference(held)
		h := hallsOf(m.Topology(), &a, free, r.Strategy == alloc.DistributeEvenly)
		if h.fit(r.Wants) {
			t.Fatalf("%s: %v of free %s", describe(m, []hold{{CPUs: held}}, r), a.Each, free)
		}
	})
}

// TestSmallContainersLeaveRoom: the largest container would go where it fills the domain, and split the last one.
func TestSmallContainersLeaveRoom(t *testing.T) {
	m := compile(t, shape{sockets: 1, nodes: 1, l3s: 2, cores: 8, threads: 1}.topology())
	var taken alloc.Taken
	m.Hold(&taken, alloc.Holding{CPUs: cpus(t, "7,14-15")})
	var s alloc.Scratch
	a, no := m.Allocate(&s, &taken, &alloc.Request{Wants: wants(4, 3, 3, 3)})
	if no.Code != alloc.Placed || splits(m.Topology(), a.Each) || a.Each[0].String() != "0-3" {
		t.Errorf("%v %q", a.Each, no)
	}
}

// TestTooManyContainersAreCheapToRefuse: thirteen containers of five CPUs do not fit into twelve equal domains. To try all
// orders of the domains would spend the whole budget.
func TestTooManyContainersAreCheapToRefuse(t *testing.T) {
	for _, strategy := range []alloc.Strategy{alloc.MostAllocated, alloc.DistributeEvenly} {
		m := compile(t, shape{sockets: 1, nodes: 1, l3s: 12, cores: 8, threads: 1}.topology())
		var s alloc.Scratch
		a, no := m.Allocate(&s, new(alloc.Taken), &alloc.Request{Strategy: strategy, Wants: wants(5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5, 5)})
		if no.Code != alloc.Placed || !a.Exact {
			t.Errorf("strategy %v: exact %t, %q", strategy, a.Exact, no)
		}
	}
}
