package alloc_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// state is a random machine with pods and a request.
type state struct {
	machine *alloc.Machine
	holds   []hold
	taken   alloc.Taken
	request *alloc.Request
}

// drawState draws a state of up to the given number of CPUs, too many for a search through all subsets.
func drawState(t *rapid.T, most int) (state, *dice) {
	d := newDice(rapid.Uint64().Draw(t, "seed"))
	s := state{machine: compile(t, drawTopology(d, d.between(1, most)))}
	s.holds, s.taken = drawHolds(d, s.machine)
	s.request = drawRequest(d, s.machine.Pinnable().Difference(s.taken.CPUs()).Size())
	return s, d
}

// checkAnswer checks the invariants of every answer.
func checkAnswer(t rapid.TB, s state, a *alloc.Answer) {
	t.Helper()
	r := s.request
	var union cpuset.Set
	for i, each := range a.Each {
		if each.Size() != r.Wants[i].CPUs || each.Intersects(union) {
			t.Errorf("container %d has %s, wants %d", i, each, r.Wants[i].CPUs)
		}
		union = union.Union(each)
	}
	free := s.machine.Pinnable().Difference(s.taken.CPUs())
	if union != a.CPUs || len(a.Each) != len(r.Wants) || !a.CPUs.IsSubsetOf(free) || !a.CPUs.IsSubsetOf(a.Occupied) {
		t.Errorf("%s (each %v, occupied %s) of free %s", a.CPUs, a.Each, a.Occupied, free)
	}
	if a.Nodes.Size() != a.Vector.NUMANodes || len(a.L3s) != a.Vector.L3s {
		t.Errorf("nodes %s, L3s %v, vector %+v", a.Nodes, a.L3s, a.Vector)
	}
	checkPolicies(t, s, a)
}

func checkPolicies(t rapid.TB, s state, a *alloc.Answer) {
	t.Helper()
	r := s.request
	for _, c := range s.machine.Topology().Cores {
		in := c.CPUs.Intersect(a.CPUs)
		whole := r.Bind == alloc.FullPCPUs && r.BindStrength == alloc.Required
		for _, each := range a.Each {
			if part := c.CPUs.Intersect(each); whole && !part.IsEmpty() && part != c.CPUs {
				t.Errorf("core %s partly in %s", c.CPUs, each)
			}
		}
		if r.Bind == alloc.SpreadByPCPUs && r.BindStrength == alloc.Required && in.Size() > 1 {
			t.Errorf("core %s twice in %s", c.CPUs, a.CPUs)
		}
		if a.Exclusive == alloc.PCPULevel && !in.IsEmpty() && (c.CPUs.Intersects(s.taken.CPUs()) || !c.CPUs.IsSubsetOf(a.Occupied)) {
			t.Errorf("core %s not exclusive: occupied %s", c.CPUs, a.Occupied)
		}
		if c.Kind == topology.KindEfficiency && !in.IsEmpty() && !r.EfficiencyCores {
			t.Errorf("efficiency core %s", c.CPUs)
		}
	}
	one := a.Vector.NUMANodes == 1
	if r.NUMA == alloc.SingleNUMANode && !one || r.Domain == alloc.OneL3ElseNUMA && !a.OneL3 && !one {
		t.Errorf("in %d NUMA nodes", a.Vector.NUMANodes)
	}
	if a.Exclusive != r.Exclusive && (r.ExclusiveStrength == alloc.Required || a.Dropped&alloc.DroppedExclusive == 0) {
		t.Errorf("exclusive %d, dropped %d", a.Exclusive, a.Dropped)
	}
}

func TestAnswersKeepThePolicies(t *testing.T) {
	var scratch alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawState(t, 48)
		before := s.taken
		a, no := s.machine.Allocate(&scratch, &s.taken, s.request)
		if s.taken != before {
			t.Fatal("Allocate changed what is taken")
		}
		if no.Code == alloc.Placed {
			checkAnswer(t, s, &a)
			if _, empty := s.machine.Allocate(&scratch, &alloc.Taken{}, s.request); empty.Code != alloc.Placed {
				t.Errorf("placed, but refused when the machine is empty: %s", empty)
			}
		}
		if t.Failed() {
			t.Fatal(describe(s.machine, s.holds, s.request))
		}
	})
}

// TestSameQuestionSameAnswer: a fresh Scratch, a used one, and one from another machine give the same answer.
func TestSameQuestionSameAnswer(t *testing.T) {
	var used alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawState(t, 32)
		var fresh alloc.Scratch
		a, no := s.machine.Allocate(&fresh, &s.taken, s.request)
		for range 2 {
			b, other := s.machine.Allocate(&used, &s.taken, s.request)
			if no != other || a.CPUs != b.CPUs || !slices.Equal(a.Each, b.Each) || a.Vector != b.Vector {
				t.Fatalf("%s: %s %v, then %s %v", describe(s.machine, s.holds, s.request), a.CPUs, no, b.CPUs, other)
			}
		}
	})
}

// TestFindThenDivide: an answer that is divided later is the answer of Allocate, also if the spare Scratch was used
// meanwhile. Few divisions change the CPUs, so there are more states than of other properties.
func TestFindThenDivide(t *testing.T) {
	var scratch alloc.Scratch
	for seed := range states(t) {
		d := newDice(uint64(seed))
		m := compile(t, drawTopology(d, d.between(1, 32)))
		holds, taken := drawHolds(d, m)
		r := drawRequest(d, m.Pinnable().Difference(taken.CPUs()).Size())
		want, no := m.Allocate(new(alloc.Scratch), &taken, r)
		got, other := m.Find(&scratch, &taken, r)
		if no != other || got.Each != nil {
			t.Fatalf("%s: %q, found %q with %v", describe(m, holds, r), no, other, got.Each)
		}
		if no.Code != alloc.Placed {
			continue
		}
		m.Allocate(scratch.Spare(), &taken, drawRequest(d, 4))
		for range 2 { // the second time it does nothing
			got.Divide(&scratch)
			if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(alloc.Answer{}), cmpopts.EquateComparable(cpuset.Set{}), cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("%s:\n%s", describe(m, holds, r), diff)
			}
		}
	}
}

// TestClash: which of two pods came first does not matter, and a pod beside several clashes if it clashes with one.
func TestClash(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s, d := drawState(t, 32)
		h, clashes := s.drawHold(d), false
		for _, other := range s.holds {
			var one, two alloc.Taken
			s.machine.Hold(&one, other)
			s.machine.Hold(&two, h)
			clash := s.machine.Clash(&one, h)
			if clash != s.machine.Clash(&two, other) {
				t.Fatalf("%s: %+v clashes: %t, the other way round: %t", describe(s.machine, []hold{other}, s.request), h, clash, !clash)
			}
			clashes = clashes || clash
		}
		if s.machine.Clash(&s.taken, h) != clashes {
			t.Fatalf("%s: %+v clashes with one pod: %t, with all: %t", describe(s.machine, s.holds, s.request), h, clashes, !clashes)
		}
	})
}

// drawHold draws what a pod may hold that was not placed by Allocate.
func (s *state) drawHold(d *dice) hold {
	return hold{
		CPUs: drawSubset(d, s.machine.Pinnable(), d.between(2, 8)), SingleNUMA: d.oneIn(2),
		Exclusive: drawOf(d, alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel),
	}
}

// TestCommitThenRelease: while an answer is held, no other request gets its CPUs. After its release everything is as
// before.
func TestCommitThenRelease(t *testing.T) {
	var scratch alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		s, d := drawState(t, 32)
		a, no := s.machine.Allocate(&scratch, &s.taken, s.request)
		if no.Code != alloc.Placed {
			return
		}
		if s.machine.Clash(&s.taken, a.Holding()) {
			t.Fatalf("%s clashes with what was taken", a.CPUs)
		}
		occupied, taken := a.Occupied, s.taken
		s.machine.Hold(&taken, a.Holding())
		if taken.CPUs() != s.taken.CPUs().Union(occupied) {
			t.Fatalf("holding %s of %s takes %s", a.CPUs, occupied, taken.CPUs())
		}
		next, no := s.machine.Allocate(&scratch, &taken, drawRequest(d, 4))
		if no.Code == alloc.Placed && next.CPUs.Intersects(occupied) {
			t.Fatalf("%s given out twice", next.CPUs.Intersect(occupied))
		}
		var again alloc.Taken
		for _, h := range s.holds {
			s.machine.Hold(&again, h)
		}
		if again != s.taken {
			t.Fatal("not as before")
		}
	})
}

// TestNumbersDoNotMatter: the vector stays the same if CPUs, nodes, L3 domains and sockets are renumbered. The new numbers
// of the CPUs are up to cpuset.Max-1, so the threads of a core are in different words of a mask.
func TestNumbersDoNotMatter(t *testing.T) {
	var scratch alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		s, d := drawState(t, 24)
		r := *s.request
		r.Wants = r.Wants[:1] // the vector does not distinguish parts of one union
		if r.Strategy == alloc.DistributeEvenly {
			r.Strategy = alloc.MostAllocated // the first node has the indivisible rest
		}
		r.Amounts = nil       // they depend on the order of the nodes
		r.Span = cpuset.Set{} // the first node has the indivisible rest
		top, renumber := shuffle(d, s.machine.Topology(), cpuset.Max)
		other := compile(t, top)
		var taken alloc.Taken
		for _, h := range s.holds {
			h.CPUs = renumber(h.CPUs)
			other.Hold(&taken, h)
		}
		a, no := s.machine.Allocate(&scratch, &s.taken, &r)
		b, otherNo := other.Allocate(&scratch, &taken, &r)
		if no != otherNo || a.Vector.Compare(b.Vector, r.Bind, r.Strategy) != 0 || a.Dropped != b.Dropped {
			t.Fatalf("%s: %+v %q, renumbered %+v %q", describe(s.machine, s.holds, &r), a.Vector, no, b.Vector, otherNo)
		}
	})
}

// shuffle renumbers the CPUs of a machine, with at least this many numbers, and reorders its domains.
func shuffle(d *dice, t *topology.Topology, numbers int) (*topology.Topology, func(cpuset.Set) cpuset.Set) {
	high, _ := t.Online.Max()
	ids := d.Perm(max(high+1, numbers))
	renumber := func(s cpuset.Set) (to cpuset.Set) {
		for cpu := range s.All() {
			to = to.Add(ids[cpu])
		}
		return to
	}
	other := *t
	other.Online, other.Reserved, other.Isolated = renumber(t.Online), renumber(t.Reserved), renumber(t.Isolated)
	other.Cores = slices.Clone(t.Cores)
	for i := range other.Cores {
		c := &other.Cores[i]
		c.CPUs = renumber(c.CPUs)
		low, _ := c.CPUs.Min()
		c.ID = topology.CoreID(low)
	}
	slices.SortFunc(other.Cores, func(a, b topology.Core) int { return int(a.ID - b.ID) })
	other.L3, other.Sockets = slices.Clone(t.L3), slices.Clone(t.Sockets)
	d.Shuffle(len(other.L3), func(i, j int) { other.L3[i], other.L3[j] = other.L3[j], other.L3[i] })
	d.Shuffle(len(other.Sockets), func(i, j int) { other.Sockets[i], other.Sockets[j] = other.Sockets[j], other.Sockets[i] })
	other.Dies = slices.Clone(t.Dies)
	for i := range other.Dies {
		other.Dies[i].CPUs = renumber(other.Dies[i].CPUs)
	}
	order := d.Perm(len(t.Nodes))
	other.Nodes = nil
	for _, i := range order {
		n := t.Nodes[i]
		n.Distances = nil
		for _, j := range order {
			n.Distances = append(n.Distances, t.Nodes[i].Distances[j])
		}
		other.Nodes = append(other.Nodes, n)
	}
	return &other, renumber
}

// near returns the terms that depend only on the location of the CPUs.
func near(v *alloc.Vector) []int {
	return []int{v.NUMANodes, v.OffPreferred, v.Sockets, v.Dies, v.Distance, v.L3s}
}

// TestMoreFreeIsNeverWorse: after a pod has left, the next pod needs no more nodes, its nodes are as near, and it needs
// no more L3 domains in them.
func TestMoreFreeIsNeverWorse(t *testing.T) {
	var scratch alloc.Scratch
	rapid.Check(t, func(t *rapid.T) {
		s, _ := drawState(t, 32)
		r := *s.request
		// A preference that is now granted may worsen other terms, also one L3 domain or a CPU in each node with
		// devices.
		r.ExclusiveStrength, r.NUMAExclusive, r.Domain = alloc.Required, alloc.NUMAShared, alloc.AnyDomain
		r.Strategy = min(r.Strategy, alloc.LeastAllocated) // even parts may cost L3 domains, and so may whole containers:
		r.Wants, r.Amounts, r.Span = r.Wants[:1], nil, cpuset.Set{}
		var all, fewer alloc.Taken
		for i, h := range s.holds {
			h.SingleNUMA = false
			s.machine.Hold(&all, h)
			if i > 0 {
				s.machine.Hold(&fewer, h)
			}
		}
		a, no := s.machine.Allocate(&scratch, &all, &r)
		if no.Code != alloc.Placed {
			return
		}
		v := a.Vector
		b, no := s.machine.Allocate(&scratch, &fewer, &r)
		w := b.Vector
		if no.Code != alloc.Placed || slices.Compare(near(&w), near(&v)) > 0 {
			t.Fatalf("%s: %+v, with more free %+v %q", describe(s.machine, s.holds, &r), v, w, no)
		}
	})
}

// TestCountsEqualTable solves the same state by counts of cores, and by the knapsack on a machine with one additional
// core. That core is in no node and not free. The knapsack may exhaust its budget, and reports that.
func TestCountsEqualTable(t *testing.T) {
	var scratch alloc.Scratch
	shapes := []shape{{1, 1, 1, 12, 2}, {1, 1, 5, 2, 2}, {1, 1, 8, 2, 2}, {1, 2, 2, 4, 2}, {2, 2, 1, 3, 2}, {2, 1, 3, 3, 2}, {2, 2, 2, 4, 1}, {1, 3, 1, 4, 2}, {2, 1, 1, 3, 4}, {1, 1, 4, 2, 4}, {1, 2, 2, 2, 4}, {2, 1, 2, 2, 8}, {1, 1, 6, 2, 3}, {2, 2, 2, 1, 8}}
	rapid.Check(t, func(t *rapid.T) {
		d := newDice(rapid.Uint64().Draw(t, "seed"))
		top := drawOf(d, shapes...).topology()
		if d.oneIn(2) {
			top, _ = shuffle(d, top, 0)
		}
		if d.oneIn(3) {
			top.Isolated = drawSubset(d, top.Online, 8)
		}
		odd := *top
		extra := cpuset.Set{}.Add(1000)
		odd.Online = odd.Online.Union(extra)
		odd.Cores = append(slices.Clone(top.Cores), topology.Core{ID: 1000, CPUs: extra, Node: topology.None, L3: topology.None, Socket: topology.None})
		m, other := compile(t, top), compile(t, &odd)
		taken, otherTaken := alloc.Taken{}, alloc.Taken{}
		cpus := drawSubset(d, top.Online, d.between(2, 4))
		m.Hold(&taken, alloc.Holding{CPUs: cpus})
		other.Hold(&otherTaken, alloc.Holding{CPUs: cpus.Union(extra)})
		r := drawRequest(d, m.Pinnable().Difference(cpus).Size())
		if r.NUMA == alloc.Restricted {
			r.NUMA = alloc.BestEffort // the other machine, empty, has a CPU in no node
		}
		a, no := m.Allocate(&scratch, &taken, r)
		each := slices.Clone(a.Each)
		b, otherNo := other.Allocate(&scratch, &otherTaken, r)
		same := a.CPUs == b.CPUs && slices.Equal(each, b.Each) && a.Vector == b.Vector
		if no.Code != otherNo.Code || b.Exact && !same || !a.Exact && no.Code == alloc.Placed {
			t.Fatalf("%s: %s %+v %q, by the table %s %+v %q", describe(m, []hold{{CPUs: cpus}}, r), a.CPUs, a.Vector, no, b.CPUs, b.Vector, otherNo)
		}
	})
}
