package alloc

import (
	"math/bits"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Allocate returns the best CPUs for a pod, or why there are none. It only reads t and r; the answer's slices belong
// to s until its next use.
func (m *Machine) Allocate(s *Scratch, t *Taken, r *Request) (a Answer, no Refusal) {
	if no = m.find(s, t, r, &a); no.Code == Placed {
		s.describe(&a, s.divide(&a))
	}
	return a, no
}

// Find is Allocate without the CPUs of the containers. For several containers these take about as long as all else, and
// not every answer is used: Answer.Divide adds them.
func (m *Machine) Find(s *Scratch, t *Taken, r *Request) (a Answer, no Refusal) {
	if no = m.find(s, t, r, &a); no.Code == Placed {
		s.describe(&a, s.search.cpus)
	}
	return a, no
}

// Divide gives the containers of an answer of Find their CPUs, and does nothing to an answer of Allocate. The answer may
// change to CPUs that are as near and split the containers less. s is the Scratch of Find, not used since.
func (a *Answer) Divide(s *Scratch) {
	if a.Each != nil {
		return
	}
	union := s.search.cpus
	if cpus := s.divide(a); cpus != union {
		s.describe(a, cpus)
	}
}

// find finds the CPUs of an answer, and leaves them in s. It changes a, which is large, only if there is an answer.
func (m *Machine) find(s *Scratch, t *Taken, r *Request, a *Answer) Refusal {
	n, no := m.check(t, r)
	if no.Code != Placed {
		return no
	}
	s.begin(m)
	for try, more := firstAttempt(r); more; try, more = try.next(r) {
		if no = s.attempt(t, r, n, try); no.Code == Placed {
			s.even()
			*a = Answer{Exact: !s.search.inexact, Exclusive: try.exclusive, NUMAExclusive: try.apart, Dropped: try.dropped, machine: m, request: *r}
			return no
		}
	}
	return no
}

// begin prepares the memory for a decision.
func (s *Scratch) begin(m *Machine) {
	e, ns := &s.eligible, &s.nodes
	e.m, e.p = m, &s.p
	s.search.e, s.search.budget, s.search.inexact = e, budget, false
	ns.e, ns.search = e, &s.search
	ns.l3s.e, ns.l3s.search = e, &s.search
	ns.l3s.picker.e, ns.l3s.picker.table.e, ns.l3s.picker.table.search = e, e, &s.search
}

// check returns how many CPUs the request asks for, or a refusal that needs no search.
func (m *Machine) check(t *Taken, r *Request) (int, Refusal) {
	n, ok := r.total()
	if !ok {
		return 0, Refusal{Code: BadRequest}
	}
	k := m.kindFor(r)
	if r.BindStrength == Required && r.Bind == FullPCPUs {
		for _, want := range r.Wants {
			if k.threads > 0 && want.CPUs%k.threads != 0 {
				return 0, Refusal{Code: NotWholeCores, Want: want.CPUs, Have: k.threads}
			}
		}
	}
	have := 0
	for i, cpus := range k.cpus {
		have += bits.OnesCount64(cpus &^ (t.cpus[i] | t.withheld[i]))
	}
	if have < n {
		return 0, Refusal{Code: TooFewCPUs, Want: n, Have: have}
	}
	return n, Refusal{}
}

// attempt is the set of preferences that the search insists on.
type attempt struct {
	exclusive Exclusive
	apart     bool
	dropped   Dropped
}

// firstAttempt insists on all preferences.
func firstAttempt(r *Request) (attempt, bool) {
	return attempt{exclusive: r.Exclusive, apart: r.NUMAExclusive != NUMAShared}, true
}

// next drops the NUMA exclusivity, then the other exclusivity instead, then both.
func (a attempt) next(r *Request) (attempt, bool) {
	next := a.dropped + 1
	for ; next <= DroppedExclusive|DroppedNUMAExclusive; next++ {
		apart := next&DroppedNUMAExclusive == 0 || r.NUMAExclusive == NUMAExclusivePreferred
		exclusive := next&DroppedExclusive == 0 || r.Exclusive != NotExclusive && r.ExclusiveStrength == Preferred
		if apart && exclusive {
			break
		}
	}
	a, _ = firstAttempt(r)
	a.dropped = next
	if next&DroppedNUMAExclusive != 0 {
		a.apart = false
	}
	if next&DroppedExclusive != 0 {
		a.exclusive = NotExclusive
	}
	return a, next <= DroppedExclusive|DroppedNUMAExclusive
}

// attempt solves the request with the preferences of try.
func (s *Scratch) attempt(t *Taken, r *Request, n int, try attempt) Refusal {
	if no := s.limit(t, r, n, try); no.Code != Placed {
		return no
	}
	if nodes := r.spanned(s.eligible.m, &s.p); nodes != 0 && s.share(nodes) {
		return Refusal{}
	}
	if r.Domain == AnyDomain {
		return s.solve()
	}
	if s.solveOneL3() {
		return Refusal{}
	}
	s.p.inOneNode(InOneDomain)
	return s.solve()
}

// limit prepares the problem of an attempt, with the number of nodes that the policy allows.
func (s *Scratch) limit(t *Taken, r *Request, n int, try attempt) Refusal {
	most := none
	if r.NUMA == Restricted {
		s.p.pose(s.eligible.m, &Taken{}, r, n, try)
		var no Refusal
		if most, no = s.eligible.fewest(); no.Code != Placed {
			return no
		}
	}
	s.p.pose(s.eligible.m, t, r, n, try)
	if most != none {
		s.p.most, s.p.scope = most, InFewNodes
	}
	return Refusal{}
}

// solve finds the best answer of the problem, or returns why there is none.
func (s *Scratch) solve() Refusal {
	count, no := s.eligible.fewest()
	if no.Code == Placed {
		if s.p.even {
			s.p.strategy = MostAllocated
		}
		if s.p.even && count > 1 {
			s.p.strategy = LeastAllocated // as much room as possible in each node
		}
		s.nodes.run(count)
	}
	return no
}

// divide gives the containers of the answer their CPUs and returns all of them.
func (s *Scratch) divide(a *Answer) mask {
	p := s.p
	cpus := s.parts.divide(s, &a.request, attempt{a.Exclusive, a.NUMAExclusive, a.Dropped})
	a.Each, a.Exact = s.parts.each, !s.search.inexact
	if len(a.Each) > 1 {
		s.p = p
		s.eligible.frees()
	}
	return cpus
}

// describe sets the CPUs of an answer and what follows from them.
func (s *Scratch) describe(a *Answer, cpus mask) {
	m := s.eligible.m
	a.CPUs, a.Occupied, a.Vector = cpus.set(), cpus.set(), s.eligible.vector(&cpus)
	if a.Exclusive == PCPULevel {
		all := m.withSiblings(&cpus)
		a.Occupied = all.set()
	}
	a.Nodes, a.OneL3 = cpuset.Set{}, false
	for i := range m.nodes {
		if m.nodeCPUs[i].in(&cpus) > 0 {
			a.Nodes = a.Nodes.Add(int(m.nodes[i].id))
		}
	}
	s.ids = s.ids[:0]
	for i := range m.l3s {
		if in := m.l3CPUs[i].in(&cpus); in > 0 {
			s.ids = append(s.ids, m.l3s[i].id)
			a.OneL3 = in == cpus.size()
		}
	}
	a.L3s = s.ids
}
