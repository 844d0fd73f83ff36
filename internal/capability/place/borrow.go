package place

import (
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Borrowers returns the containers that may borrow, in the order of pods and names: running containers of known pods.
func (n *Node) Borrowers() []lending.Borrower {
	if n.settle(); !n.outcome.open {
		return nil
	}
	var all []lending.Borrower
	for _, p := range n.Pods.sorted() {
		if p.borrows() && p.real() {
			all = append(all, p.borrowers()...)
		}
	}
	return all
}

// borrowers returns the containers of a pod that may borrow. For a pod that has its CPUs as a whole, one Borrower
// without a name is for all.
func (p *pod) borrowers() []lending.Borrower {
	var all []lending.Borrower
	for _, c := range p.asked.pin.Pinned {
		m := p.running(c.Name)
		part := p.has.grant.Parts[c.Name].CPUs
		if m == nil || part.IsEmpty() {
			continue
		}
		b := lending.Borrower{PodUID: p.uid, Container: c.Name, ContainerID: m.ID, Reserved: part, Limit: unit.MilliCPUs(c.Limit)}
		if p.asked.pin.PerPod {
			b.Container, b.ContainerID = "", ""
			return []lending.Borrower{b}
		}
		all = append(all, b)
	}
	return all
}

// Lend gives borrowers as many CPUs as their loans say, and takes back the CPUs of all other borrowers. use is how busy
// each CPU was since the last choice of cores, by CPU number. If use is nil, no new cores are chosen: borrowers only
// give CPUs back.
func (n *Node) Lend(loans []lending.Loan, use []unit.CPUs) {
	if n.settle(); !n.outcome.open {
		return
	}
	n.outcome.listed, n.outcome.shown = nil, nil
	held := n.held(loans)
	use = lending.Others(use, held)
	for i, l := range loans {
		p := n.Pods.pods[l.PodUID]
		if p == nil || !p.borrows() {
			continue
		}
		if p.has.loans == nil {
			p.has.loans = map[string]lending.Lent{}
		}
		p.has.loans[l.Container] = l.Choose(held[i], p.reserved(l.Container).Size(), n.outcome.unreserved(p), use)
	}
}

// held takes all loans back. It returns the previous loans of the given borrowers, with the CPU time that they used.
func (n *Node) held(loans []lending.Loan) []lending.Lent {
	held := make([]lending.Lent, len(loans))
	for i, l := range loans {
		if p := n.Pods.pods[l.PodUID]; p != nil {
			held[i] = p.has.loans[l.Container]
			held[i].Used = l.Used
		}
	}
	for _, p := range n.Pods.pods {
		for name, l := range p.has.loans {
			p.gives(name, l.CPUs)
		}
		p.has.loans = nil
	}
	return held
}

// borrows reports whether the pod has reserved CPUs and may also use others.
func (p *pod) borrows() bool { return p.has.grant != nil && p.has.grant.Burst }

// running returns the running container of this name, or nil. With a limit of the pod, it may be any container with a
// part.
func (p *pod) running(name string) *container {
	for _, c := range p.containers {
		_, pinned := p.has.grant.Parts[c.Name]
		if c.Phase == observed.Running && !c.Sandbox && (c.Name == name || p.asked.pin.PerPod && pinned) {
			return c
		}
	}
	return nil
}

func (p *pod) reserved(container string) cpuset.Set {
	if container != "" {
		return p.has.grant.Parts[container].CPUs
	}
	var all cpuset.Set
	for _, one := range p.has.grant.Parts {
		all = all.Union(one.CPUs)
	}
	return all
}

// lent returns what a container of the pod borrows.
func (p *pod) lent(container string) lending.Lent {
	if !p.borrows() {
		return lending.Lent{}
	}
	if p.asked.pin.PerPod {
		container = ""
	}
	return p.has.loans[container]
}

// unreserved returns the cores of the pod's domain that are wholly in the shared pool, in the order of the topology. It
// excludes efficiency cores, which the pod is never given.
func (o *outcome) unreserved(p *pod) []cpuset.Set {
	t := o.facts.Machine.Topology()
	_, domain := lending.Domain(t, p.reserved(""))
	for _, c := range p.containers {
		if _, pinned := p.has.grant.Parts[c.Name]; pinned && c.live() && !c.Bound.IsEmpty() {
			domain = domain.Intersect(c.Bound) // the group above may have no other CPUs
		}
	}
	var cores []cpuset.Set
	for i := range t.Cores {
		core := &t.Cores[i]
		if !core.CPUs.IsEmpty() && core.Kind != topology.KindEfficiency && core.CPUs.IsSubsetOf(domain.Intersect(o.pool.Side(p.spec.Offline))) {
			cores = append(cores, core.CPUs)
		}
	}
	return cores
}

// yield takes back what borrowers have of cores that are no longer unreserved as a whole. It runs in every decision, so
// that the answer which reserves a core makes its borrowers leave.
func (n *Node) yield() {
	for _, p := range n.Pods.pods {
		if p.has.loans == nil {
			continue
		}
		if !p.borrows() {
			p.has.loans = nil
			continue
		}
		var free cpuset.Set
		for _, core := range n.outcome.unreserved(p) {
			free = free.Union(core)
		}
		for name, l := range p.has.loans {
			p.gives(name, l.CPUs.Difference(free))
			l.CPUs = l.CPUs.Intersect(free)
			p.has.loans[name] = l
		}
	}
}

// gives records that a borrower may still be on CPUs that it must leave, until Berth answers for it or observes it:
// with systemd, the change comes later.
func (p *pod) gives(container string, cpus cpuset.Set) {
	if !p.borrows() {
		return
	}
	for _, c := range p.containers {
		if _, pinned := p.has.grant.Parts[c.Name]; pinned && (c.Name == container || container == "") && !c.CPUs.IsEmpty() {
			c.CPUs = c.CPUs.Union(cpus)
		}
	}
}

// ownOf returns the reserved part of the CPUs that a container was seen on. It is the part of grant g, if the container
// has all of it and no others than borrowed CPUs; else it is cpus. A container that Berth gave CPUs before may have
// borrowed any.
func (p *pod) ownOf(g *grant.Grant, m *container, cpus cpuset.Set) cpuset.Set {
	part := g.Parts[m.Name].CPUs
	if g.Burst && !part.IsEmpty() && part.IsSubsetOf(cpus) &&
		(m.own || m.Pinned || cpus.IsSubsetOf(part.Union(p.lent(m.Name).CPUs))) {
		return part
	}
	return cpus
}

// foundReserved returns the reserved CPUs of a container of a pod that borrows, when only all its CPUs from Berth are
// known. They are the CPUs of its placement. Without one, they are CPUs that no other container has, up to its limit:
// other containers also have the borrowed CPUs.
func (s *claims) foundReserved(p *pod, m *container, written cpuset.Set) cpuset.Set {
	if !written.IsEmpty() && written.IsSubsetOf(m.CPUs) {
		return written
	}
	alone := m.CPUs.Intersect(s.pinnable())
	for _, other := range s.pods {
		for _, c := range other.containers {
			mate := other == p && (p.asked.pin.PerPod || p.kind(c) > sidecar || c.Name == m.Name) // these may have the same CPUs as m
			if c != m && c.live() && !c.Sandbox && !mate {
				alone = alone.Difference(c.CPUs)
			}
		}
	}
	want := alone.Size()
	for _, c := range p.asked.pin.Pinned {
		if c.Name == m.Name {
			want = min(want, c.CPUs)
		}
	}
	return lending.WholeFirst(s.machine.Topology(), alone, want)
}

func (p *pod) burstWhy(container string) string {
	l := p.lent(container)
	return l.Text(p.has.grant.Parts[container].CPUs, p.has.grant.From.String())
}
