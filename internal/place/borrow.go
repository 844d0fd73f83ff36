package place

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/unit"
)

// Borrower is a container with static-burst: beside the CPUs that are reserved for it, it may
// run on those of its domain that are reserved for no pod. With a limit of the pod it is all
// containers together, as they share one set.
type Borrower struct {
	PodUID string
	// Container and ContainerID are empty where the containers share one set.
	Container, ContainerID string
	// Groups hold the quotas that bound it, its own group first. A Node knows no groups:
	// whoever puts containers adds them.
	Groups []string
	// Reserved are the CPUs that no other container uses.
	Reserved cpuset.Set
	// Limit is what its quota grants, in CPUs.
	Limit unit.CPUs
}

// Loan is what a Borrower may have.
type Loan struct {
	PodUID, Container string
	// Width is how many CPUs it shall have, reserved ones included, and Why says what
	// that follows from.
	Width int
	Why   string
	// Used is the CPU time that it used in a second, since the cores were chosen last.
	Used unit.CPUs
}

// loan is what a borrower has.
type loan struct {
	Loan
	cpus cpuset.Set
	// over is on how many CPUs it runs, reserved ones included; chosen says that cores were
	// looked for.
	over   int
	chosen bool
}

// mark is by how much a core that a borrower has already may be busier than another one, in
// CPUs, and stays: each change moves threads away from their caches.
const mark = 0.25

// Borrowers returns the containers that may borrow, in the order of pods and names: those that
// run, of pods that are known.
func (n *Node) Borrowers() []Borrower {
	if n.settle(); !n.open {
		return nil
	}
	var all []Borrower
	for _, p := range n.sorted() {
		if p.borrows() && p.real() {
			all = append(all, p.borrowers()...)
		}
	}
	return all
}

// borrowers returns the containers of a pod that may borrow: one without a name for all, where
// the pod as a whole has its CPUs.
func (p *pod) borrowers() []Borrower {
	var all []Borrower
	for _, c := range p.pin.Pinned {
		m := p.running(c.Name)
		part := p.grant.parts[c.Name].cpus
		if m == nil || part.IsEmpty() {
			continue
		}
		b := Borrower{PodUID: p.uid, Container: c.Name, ContainerID: m.ID, Reserved: part, Limit: unit.MilliCPUs(c.Limit)}
		if p.pin.PerPod {
			b.Container, b.ContainerID = "", ""
			return []Borrower{b}
		}
		all = append(all, b)
	}
	return all
}

// Lend gives borrowers as many CPUs as their loans say, and takes back what the others have.
// use is how busy each CPU was since the cores were chosen last, by its number. Without it no
// core is chosen anew, and a borrower only gives back.
func (n *Node) Lend(loans []Loan, use []unit.CPUs) {
	if n.settle(); !n.open {
		return
	}
	held := n.held(loans)
	if use != nil {
		use = others(use, held)
	}
	for i, l := range loans {
		p := n.pods[l.PodUID]
		if p == nil || !p.borrows() {
			continue
		}
		reserved := p.reserved(l.Container).Size()
		next := loan{Loan: l, chosen: use != nil || held[i].chosen}
		next.cpus = spread(n.lendable(p, held[i].cpus, use), l.Width-reserved)
		next.over = reserved + next.cpus.Size()
		if p.loans == nil {
			p.loans = map[string]loan{}
		}
		p.loans[l.Container] = next
		next.busy(use, +1)
	}
}

// held takes all loans back and returns those of the same borrowers, with what they used on them.
func (n *Node) held(loans []Loan) []loan {
	held := make([]loan, len(loans))
	for i, l := range loans {
		if p := n.pods[l.PodUID]; p != nil {
			held[i] = p.loans[l.Container]
			held[i].Used = l.Used
		}
	}
	for _, p := range n.pods {
		for name, l := range p.loans {
			p.gives(name, l.cpus)
		}
		p.loans = nil
	}
	return held
}

// others returns how busy CPUs are with other work than that of borrowers, which is taken to be
// spread evenly over the CPUs that each has: the kernel counts it by group only.
func others(use []unit.CPUs, held []loan) []unit.CPUs {
	use = slices.Clone(use)
	for i := range held {
		held[i].busy(use, -1)
	}
	return use
}

// busy adds what the borrower uses of each borrowed CPU, or takes it off.
func (l *loan) busy(use []unit.CPUs, sign unit.CPUs) {
	share := l.Used / unit.CPUs(max(l.over, 1))
	for cpu := range l.cpus.All() {
		if cpu < len(use) {
			use[cpu] = max(0, use[cpu]+sign*share)
		}
	}
}

// borrows says that the pod has reserved CPUs, and may use others besides.
func (p *pod) borrows() bool { return p.grant != nil && p.grant.burst }

// running returns the container of a name that runs, nil for none. With a limit of the pod any
// one that has a part will do.
func (p *pod) running(name string) *container {
	for _, c := range p.containers {
		_, pinned := p.grant.parts[c.Name]
		if c.Phase == Running && !c.Sandbox && (c.Name == name || p.pin.PerPod && pinned) {
			return c
		}
	}
	return nil
}

// reserved returns what is reserved for a borrower.
func (p *pod) reserved(container string) cpuset.Set {
	if container != "" {
		return p.grant.parts[container].cpus
	}
	var all cpuset.Set
	for _, one := range p.grant.parts {
		all = all.Union(one.cpus)
	}
	return all
}

// lent is what a container of the pod has besides its own.
func (p *pod) lent(container string) loan {
	if !p.borrows() {
		return loan{}
	}
	if p.pin.PerPod {
		container = ""
	}
	return p.loans[container]
}

// lendable returns the cores that a pod may borrow of, the best first: those of its domain that
// are unreserved as a whole, least used first. Without use only those that it holds.
func (n *Node) lendable(p *pod, held cpuset.Set, use []unit.CPUs) []cpuset.Set {
	type ranked struct {
		core cpuset.Set
		use  unit.CPUs
	}
	var all []ranked
	for _, core := range n.unreserved(p) {
		one := ranked{core: core}
		for cpu := range core.All() {
			if cpu < len(use) {
				one.use += use[cpu]
			}
		}
		switch {
		case core.Intersects(held):
			one.use -= mark
		case use == nil:
			continue
		}
		if use == nil {
			one.core = core.Intersect(held)
		}
		all = append(all, one)
	}
	slices.SortStableFunc(all, func(a, b ranked) int { return cmp.Compare(a.use, b.use) })
	cores := make([]cpuset.Set, len(all))
	for i, one := range all {
		cores[i] = one.core
	}
	return cores
}

// unreserved returns the cores of the pod's domain that are in the shared pool as a whole, in
// the order of the topology. Efficiency cores are not what the pod was given cores of.
func (o *outcome) unreserved(p *pod) []cpuset.Set {
	t := o.facts.Machine.Topology()
	_, domain := domainOf(t, p.reserved(""))
	for _, c := range p.containers {
		if _, pinned := p.grant.parts[c.Name]; pinned && c.live() && !c.Bound.IsEmpty() {
			domain = domain.Intersect(c.Bound) // the group above may have no others
		}
	}
	var cores []cpuset.Set
	for i := range t.Cores {
		core := &t.Cores[i]
		if !core.CPUs.IsEmpty() && core.Kind != topology.KindEfficiency && core.CPUs.IsSubsetOf(domain.Intersect(o.side(p))) {
			cores = append(cores, core.CPUs)
		}
	}
	return cores
}

// spread returns so many CPUs of the cores, or all: one thread of every core before a second of
// any, of the first cores first.
func spread(cores []cpuset.Set, n int) cpuset.Set {
	var chosen cpuset.Set
	for chosen.Size() < n {
		before := chosen
		for i := range cores {
			if cpu, found := cores[i].Difference(before).Min(); found && chosen.Size() < n {
				chosen = chosen.Add(cpu)
			}
		}
		if chosen == before {
			break
		}
	}
	return chosen
}

// domainOf returns where a pod with these CPUs may borrow, with its name in placements: the
// smallest of L3 domain and NUMA node that holds them. Of CPUs in several nodes, as an annotation
// of another writer may have it, the first counts.
func domainOf(t *topology.Topology, reserved cpuset.Set) (name string, cpus cpuset.Set) {
	for i := range t.L3 {
		if l3 := &t.L3[i]; reserved.IsSubsetOf(l3.CPUs) {
			return fmt.Sprintf("l3:%d", l3.ID), l3.CPUs
		}
	}
	for i := range t.Nodes {
		if node := &t.Nodes[i]; reserved.IsSubsetOf(node.CPUs) {
			return fmt.Sprintf("numa:%d", node.ID), node.CPUs
		}
	}
	first, _ := reserved.Min()
	for i := range t.Nodes {
		if node := &t.Nodes[i]; node.CPUs.Contains(first) {
			return fmt.Sprintf("numa:%d", node.ID), node.CPUs
		}
	}
	return "numa:0", cpuset.Set{}
}

// yield takes back what borrowers have of cores that are not unreserved as a whole any more. It
// comes with every decision, so that the answer which reserves a core has its borrowers leave it.
func (n *Node) yield() {
	for _, p := range n.pods {
		if p.loans == nil {
			continue
		}
		if !p.borrows() {
			p.loans = nil
			continue
		}
		var free cpuset.Set
		for _, core := range n.unreserved(p) {
			free = free.Union(core)
		}
		for name, l := range p.loans {
			p.gives(name, l.cpus.Difference(free))
			l.cpus = l.cpus.Intersect(free)
			p.loans[name] = l
		}
	}
}

// gives notes that a borrower may be on CPUs that it is to leave, until it is answered or seen:
// where systemd is asked for a list, that comes later.
func (p *pod) gives(container string, cpus cpuset.Set) {
	if !p.borrows() {
		return
	}
	for _, c := range p.containers {
		if _, pinned := p.grant.parts[c.Name]; pinned && (c.Name == container || container == "") && !c.CPUs.IsEmpty() {
			c.CPUs = c.CPUs.Union(cpus)
		}
	}
}

// burstWhy is the sentence about the CPUs of a borrower.
func (p *pod) burstWhy(container string) string {
	l := p.lent(container)
	reserved := p.grant.parts[container].cpus
	why := "CPUs " + reserved.String() + " are reserved, " + p.grant.from.String()
	switch {
	case !l.chosen:
		return why + "; it borrows none so far"
	case l.Width <= reserved.Size():
		return why + "; it borrows none: " + l.Why
	case l.cpus.IsEmpty():
		return why + "; it borrows none: no other core of its domain is free of reserved CPUs"
	case l.cpus.Size()+reserved.Size() < l.Width:
		return why + "; it borrows " + l.cpus.String() + ": the other cores of its domain have reserved CPUs"
	}
	return why + "; it borrows " + l.cpus.String() + ": " + l.Why
}

// ownOf returns what of the CPUs that a container was seen on is reserved for it by a grant of
// its pod: that part, where it is on no others than those and what it borrows. One that Berth gave
// CPUs before may have borrowed any.
func (p *pod) ownOf(g *grant, m *container, cpus cpuset.Set) cpuset.Set {
	part := g.parts[m.Name].cpus
	if g.burst && !part.IsEmpty() && part.IsSubsetOf(cpus) &&
		(m.own || m.Pinned || cpus.IsSubsetOf(part.Union(p.lent(m.Name).cpus))) {
		return part
	}
	return cpus
}

// foundReserved returns what is reserved for a container of a pod that borrows, of which only the
// CPUs are known that Berth gave it: what its placement names, and without one as many as its
// limit of those that no other container has. All others have what it borrowed, too.
func (s *claims) foundReserved(p *pod, m *container, written cpuset.Set) cpuset.Set {
	if !written.IsEmpty() && written.IsSubsetOf(m.CPUs) {
		return written
	}
	alone := m.CPUs.Intersect(s.pinnable())
	for _, other := range s.pods {
		for _, c := range other.containers {
			mate := other == p && (p.pin.PerPod || p.kind(c) > sidecar)
			if c != m && c.live() && !c.Sandbox && !mate {
				alone = alone.Difference(c.CPUs)
			}
		}
	}
	want := alone.Size()
	for _, c := range p.pin.Pinned {
		if c.Name == m.Name {
			want = min(want, c.CPUs)
		}
	}
	return s.wholeFirst(alone, want)
}

// wholeFirst returns n of the CPUs, whole cores before others.
func (s *claims) wholeFirst(cpus cpuset.Set, n int) cpuset.Set {
	var some cpuset.Set
	for i := range s.machine.Topology().Cores {
		if core := s.machine.Topology().Cores[i].CPUs; core.IsSubsetOf(cpus) && some.Size()+core.Size() <= n {
			some = some.Union(core)
		}
	}
	for cpu := range cpus.Difference(some).All() {
		if some.Size() < n {
			some = some.Add(cpu)
		}
	}
	return some
}
