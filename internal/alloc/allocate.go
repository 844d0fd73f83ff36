package alloc

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Allocate finds the best CPUs for a pod, or says why there are none. It reads
// t and r only; the answer's slices belong to s until its next use.
func (m *Machine) Allocate(s *Scratch, t *Taken, r *Request) (Answer, Refusal) {
	n, ok := r.total()
	if !ok {
		return Answer{}, Refusal{Code: BadRequest}
	}
	var no Refusal
	for _, try := range attempts(r) {
		var a Answer
		if a, no = m.attempt(s, t, r, n, try); no.Code == Placed {
			return a, no
		}
	}
	return Answer{}, no
}

// attempt is a choice of the preferences to insist on.
type attempt struct {
	exclusive Exclusive
	apart     bool
	dropped   Dropped
}

// attempts lists what to try, in order: preferences are conditions first.
func attempts(r *Request) []attempt {
	list := []attempt{{exclusive: r.Exclusive, apart: r.NUMAExclusive != NUMAShared}}
	if r.NUMAExclusive == NUMAExclusivePreferred {
		list = append(list, attempt{exclusive: r.Exclusive, dropped: DroppedNUMAExclusive})
	}
	if r.Exclusive != NotExclusive && r.ExclusiveStrength == Preferred {
		for _, a := range slices.Clone(list) {
			a.exclusive, a.dropped = NotExclusive, a.dropped|DroppedExclusive
			list = append(list, a)
		}
	}
	return list
}

// EverFits says whether the empty machine would do, and if not, why not.
func (m *Machine) EverFits(s *Scratch, r *Request) Refusal {
	_, no := m.Allocate(s, &Taken{}, r)
	return no
}

func (m *Machine) attempt(s *Scratch, t *Taken, r *Request, n int, try attempt) (Answer, Refusal) {
	p, no := m.problem(t, r, n, try)
	if no.Code != Placed {
		return Answer{}, no
	}
	if p.free.size() < n {
		return Answer{}, Refusal{Code: TooFewCPUs, Want: n, Have: p.free.size()}
	}
	if r.NUMA == Restricted {
		empty, _ := m.problem(&Taken{}, r, n, try)
		if _, v, ok := s.solve(m, &empty); ok {
			p.most = v.NUMANodes
		}
	}
	best, ok := m.domains(s, &p, r)
	if !ok {
		return Answer{}, Refusal{Code: TooFewCPUs, Want: n}
	}
	return m.answer(s, &p, r, try, best), Refusal{}
}

// domains solves the problem once for each domain that the answer may be in.
func (m *Machine) domains(s *Scratch, p *problem, r *Request) (found, bool) {
	if r.Domain == AnyDomain {
		cpus, v, ok := s.solve(m, p)
		return found{ok, v, cpus}, ok
	}
	var best found
	for i := range m.l3s {
		p.only = i
		cpus, v, ok := s.solve(m, p)
		if !ok {
			continue
		}
		order := -1
		if best.ok {
			order = v.Compare(best.vector, p.bind, p.least)
		}
		if order < 0 || order == 0 && cpus.before(&best.cpus) {
			best = found{true, v, cpus}
		}
	}
	p.only = none
	if !best.ok {
		p.most, p.home = min(p.most, 1), false
		best.cpus, best.vector, best.ok = s.solve(m, p)
	}
	return best, best.ok
}

// problem states what is to be solved.
func (m *Machine) problem(t *Taken, r *Request, n int, try attempt) (problem, Refusal) {
	kind := 0
	if r.EfficiencyCores {
		kind = 1
	}
	p := problem{
		n: n, free: m.pin[kind], bind: r.Bind, least: r.Strategy, only: none, most: len(m.nodes),
		home:  r.NUMA != SingleNUMANode && try.exclusive != NUMANodeLevel,
		picky: !r.PreferNodes.IsEmpty(), clean: try.exclusive == PCPULevel, chain: m.threads[kind],
	}
	p.free.andNot(&t.cpus)
	if r.NUMA == SingleNUMANode {
		p.most = 1
	}
	if r.BindStrength == Required {
		p.whole, p.one = r.Bind == FullPCPUs, r.Bind == SpreadByPCPUs
	}
	if p.whole {
		p.clean = true
		for _, want := range r.Wants {
			if p.chain == 0 || want.CPUs%p.chain != 0 {
				return p, Refusal{Code: NotWholeCores, Want: want.CPUs, Have: p.chain}
			}
		}
	}
	m.allowNodes(t, try, r, &p)
	return p, Refusal{}
}

// allowNodes finds the nodes that may be used.
func (m *Machine) allowNodes(t *Taken, try attempt, r *Request, p *problem) {
	for i := range m.nodes {
		n := &m.nodes[i]
		if r.PreferNodes.Contains(int(n.id)) {
			p.prefer.add(i)
		}
		if t.closed.has(i) || try.exclusive == NUMANodeLevel && n.cpus.intersects(&t.cpus) {
			continue
		}
		if !t.keepAcross.has(i) && (!try.apart || !t.across.has(i)) {
			p.single.add(i)
		}
		if !t.keepInside.has(i) && (!try.apart || !t.inside.has(i)) {
			p.across.add(i)
		}
	}
}

// answer divides the union among the containers and describes the result.
func (m *Machine) answer(s *Scratch, p *problem, r *Request, try attempt, best found) Answer {
	a := Answer{
		CPUs: best.cpus.set(), Vector: best.vector, Exclusive: try.exclusive, NUMAExclusive: try.apart,
		Dropped: try.dropped, Exact: true, machine: m, request: r,
	}
	occupied := best.cpus
	if try.exclusive == PCPULevel {
		m.withSiblings(&occupied)
	}
	a.Occupied = occupied.set()
	nodes, _ := m.nodesOf(&best.cpus)
	for i := range m.nodes {
		if nodes.has(i) {
			a.Nodes = a.Nodes.Add(int(m.nodes[i].id))
		}
	}
	s.ids = s.ids[:0]
	for i := range m.l3s {
		if m.l3s[i].cpus.intersects(&best.cpus) {
			s.ids = append(s.ids, topology.L3ID(m.l3s[i].id))
			a.OneL3 = isSubset(&best.cpus, &m.l3s[i].cpus)
		}
	}
	a.L3s = s.ids
	a.Each = m.divide(s, p, r, best.cpus)
	return a
}

// divide gives each container the best part of what is left of the union, the
// largest first.
func (m *Machine) divide(s *Scratch, p *problem, r *Request, rest mask) []cpuset.Set {
	s.each = resize(s.each, len(r.Wants))
	s.order = resize(s.order, len(r.Wants))
	for i := range s.order {
		s.order[i] = i
	}
	slices.SortFunc(s.order, func(a, b int) int {
		return cmp.Or(cmp.Compare(r.Wants[b].CPUs, r.Wants[a].CPUs), cmp.Compare(r.Wants[a].Name, r.Wants[b].Name), cmp.Compare(a, b))
	})
	part := *p
	part.single, part.across, part.home, part.most, part.clean = everything(), everything(), true, len(m.nodes), false
	for _, i := range s.order {
		part.n, part.free = r.Wants[i].CPUs, rest
		cpus, _, _ := s.solve(m, &part)
		s.each[i] = cpus.set()
		rest.andNot(&cpus)
	}
	return s.each
}

func everything() mask {
	var all mask
	for i := range all {
		all[i] = ^uint64(0)
	}
	return all
}
