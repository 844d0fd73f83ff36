package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// settle decides which pods have which CPUs, if anything changed since the last decision.
//
// It compares all claims first, in the order of doc.go, so that a pod that needs other CPUs never gets CPUs of another
// pod. Then it places the pods that lost their CPUs, or never had any, on the remaining CPUs.
func (n *Node) settle() {
	if !n.Pods.stale {
		return
	}
	n.Pods.stale = false
	n.Pods.reap()
	all := n.Pods.sorted()
	for _, p := range all {
		if p.settled() {
			n.adoptLimits(p)
		}
	}
	n.outcome = outcome{
		facts: &n.facts, open: n.facts.Pinnable && n.facts.Machine != nil, cores: n.outcome.cores,
	}
	if !n.outcome.open {
		n.close(all)
		n.widen()
		return
	}
	n.reports.arrive(all)
	n.claims.collect(&n.facts, all)
	var o placement.Occupancy
	n.compare(&o)
	n.placeAll(&o)
	n.moveOne(all, &o)
	n.outcome.sum(all, &o)
	n.yield()
	n.reports.examineAll(all)
	n.reports.overcommit(n.outcome.excess)
	n.widen()
}

// widen forgets where containers without exclusive CPUs were seen to run once nothing is desired for them: they get
// back what they had, and the agent no longer reads their CPUs. A container that Berth gave CPUs to may still prove
// that they are its own.
func (n *Node) widen() {
	if n.outcome.first != nil {
		return
	}
	n.Pods.each(func(p *pod, c *container) {
		if n.outcome.untouched(p) && !c.Pinned && !c.own {
			c.CPUs, c.verified = cpuset.Set{}, false
		}
	})
}

// collect collects and orders the claims of all pods that have, or may get, exclusive CPUs of the machine, adds up the
// requests of all pods, and finds the pods to which the kubelet gave memory.
func (s *claims) collect(f *Facts, all []*pod) {
	s.machine, s.pods, s.requested, s.given = f.Machine, all, placement.Node{Machine: f.Machine}, s.given[:0]
	s.all = slices.Grow(s.all[:0], len(all))
	s.memory = slices.Grow(s.memory[:0], len(all))
	for _, p := range all {
		if counts(p) {
			count(&s.requested, p, 1)
			if _, has := f.Given[p.name]; has && p.spec.Annotations[v1alpha1.AnnotationPlacement] == "" {
				s.given = append(s.given, p)
			}
		}
		if p.has.grant == nil && !p.pending {
			continue
		}
		s.memory = append(s.memory, claim{pod: p})
		c := &s.memory[len(s.memory)-1]
		s.read(c)
		s.all = append(s.all, c)
	}
	s.keepReal()
	slices.SortStableFunc(s.all, runningFirst)
}

// reap forgets pods that are gone.
func (ps *Pods) reap() {
	for uid, p := range ps.pods {
		if (p.gone || !p.known) && p.over() && (p.gone || len(p.containers) == 0) {
			for _, c := range p.containers {
				delete(ps.where, c.ID)
			}
			delete(ps.pods, uid)
			ps.order = slices.DeleteFunc(ps.order, func(other *pod) bool { return other == p })
		}
	}
}

// keepReal lets containers keep the CPUs that they run on. Where containers of two pods run on the same CPUs, the pod
// that was scheduled earlier keeps them.
func (s *claims) keepReal() {
	var kept cpuset.Set
	for i, c := range s.all {
		if !c.realCPUs.Intersects(kept) {
			kept = kept.Union(c.realCPUs)
			continue
		}
		for _, name := range sortedNames(c.real) {
			if shared := c.real[name].Intersect(kept); !shared.IsEmpty() {
				c.lose(v1alpha1.EventPlacementRefused, c.belongs(shared, s.all[:i]), name)
			}
		}
		kept = kept.Union(c.realCPUs)
	}
}

// runningFirst orders claims that run on their CPUs before others.
func runningFirst(a, b *claim) int {
	switch {
	case a.realCPUs.IsEmpty() == b.realCPUs.IsEmpty():
		return 0
	case b.realCPUs.IsEmpty():
		return -1
	}
	return 1
}

// compare accepts, in order, the claims that no earlier claim conflicts with, and adds them up.
func (n *Node) compare(o *placement.Occupancy) {
	var running cpuset.Set
	for _, c := range n.claims.all {
		running = running.Union(c.realCPUs)
	}
	room := n.claims.room()
	for i, c := range n.claims.all {
		n.claims.check(i, o.Taken.CPUs().Union(running.Difference(c.realCPUs)))
		g := n.claims.standing(c)
		switch {
		case g == nil:
			c.pod.release()
		case !room.leaves(g, o):
			c.loseAll(v1alpha1.EventPlacementRefused, "no whole core would be left to the shared pool")
			c.pod.release()
		default:
			c.pod.has.grant = n.fitMemory(c, g, o)
			setPooled(c.pod, false)
			o.Add(g.Machine, &c.pod.has.grant.Held)
			if c.wider || c.pod.has.grant != g {
				n.reports.writeBack(c.pod)
			}
		}
	}
}

// room checks that a whole core remains for the shared pool. If all earlier grants together leave a core (ample), each
// of them does as well.
type room struct {
	machine *alloc.Machine
	most    cpuset.Set
	ample   bool
}

func (s *claims) room() *room {
	r := &room{machine: s.machine}
	for _, c := range s.all {
		if c.whole {
			r.most = r.most.Union(c.pod.has.grant.Occupied)
		}
	}
	r.ample = r.core(r.most)
	return r
}

func (r *room) core(but cpuset.Set) bool {
	return r.machine.Topology().HasCore(r.machine.Topology().Containers().Difference(but))
}

// leaves reports whether a whole core remains beside this grant and the grants that o already has.
func (r *room) leaves(g *grant.Grant, o *placement.Occupancy) bool {
	if r.ample && g.Occupied.IsSubsetOf(r.most) {
		return true
	}
	r.most = r.most.Union(g.Occupied)
	r.ample = r.core(r.most)
	return r.ample || r.core(o.Taken.CPUs().Union(g.Occupied))
}

// check removes from claims[at] the parts with taken CPUs on which their containers do not run. A pod of which nothing
// runs is placed again as a whole.
func (s *claims) check(at int, taken cpuset.Set) {
	c := s.all[at]
	if c.whole && !c.pod.has.grant.Occupied.Intersects(taken) {
		return
	}
	var names []string
	var shared cpuset.Set
	for _, name := range sortedNames(c.has.Parts) {
		if others := c.has.Parts[name].CPUs.Difference(c.real[name]).Intersect(taken); !others.IsEmpty() {
			names = append(names, name)
			shared = shared.Union(others)
		}
	}
	if len(c.real) == 0 {
		if g := s.standing(c); g != nil && g.Occupied.Intersects(taken) {
			c.loseAll(v1alpha1.EventPlacementRefused, c.belongs(g.Occupied.Intersect(taken), s.all[:at]))
		}
		return
	}
	if len(names) > 0 {
		c.lose(v1alpha1.EventPlacementRefused, c.belongs(shared, slices.Concat(s.all[:at], s.all[at+1:])), names...)
	}
}

// standing returns the remaining claim as a grant, or nil if nothing remains.
func (s *claims) standing(c *claim) *grant.Grant {
	switch {
	case len(c.has.Parts) == 0:
		return nil
	case c.whole:
		return c.pod.has.grant
	}
	return c.has.On(s.machine, c.pod.asked.pin)
}

// belongs tells the pod of the claim who has these CPUs. It does not name a pod of another namespace: the reader of the
// event may not be allowed to know about it.
func (c *claim) belongs(cpus cpuset.Set, claims []*claim) string {
	for _, other := range claims {
		if other.pod.known && other.pod.spec.Namespace != c.pod.spec.Namespace {
			continue
		}
		for _, one := range other.has.Parts {
			if one.CPUs.Intersects(cpus) {
				return fmt.Sprintf("CPUs %s belong to %s", cpus, other.pod.key())
			}
		}
	}
	return fmt.Sprintf("CPUs %s belong to another pod", cpus)
}
