package placement

import (
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Decision is a node's answer to an Ask: which CPUs, and where the memory may come from. It shares nothing with the
// Scratch it was made with.
type Decision struct {
	// Answer is the allocator's answer with copied slices. Each is in the order of Ask.Request.Wants.
	Answer alloc.Answer
	// Bind and Strategy are used to compare the vector of the answer.
	Bind     alloc.Bind
	Strategy alloc.Strategy

	machine *alloc.Machine
	first   nodeMask   // the NUMA nodes that the first of Wants is bound to, or 0
	others  []nodeMask // the same for the others
}

// Decide chooses the CPUs of a pod on one node, or returns why there are none. Its result depends only on its
// arguments. s belongs to the caller; n, o and a are not changed.
func Decide(s *alloc.Scratch, n Node, o *Occupancy, a *Ask) (Decision, Refusal) {
	if n.Machine == nil {
		return Decision{}, Refusal{Code: NoTopology}
	}
	r, refusal := n.request(a)
	if !refusal.OK() {
		return Decision{}, refusal
	}
	if o.Resizing {
		return Decision{}, Refusal{Code: Resizing}
	}
	if refusal := n.enough(o, a, 0); !refusal.OK() {
		return Decision{}, refusal
	}
	answer, refusal := n.allocateNear(s, o, a, r)
	if !refusal.OK() {
		return Decision{}, refusal
	}
	if siblings := answer.Occupied.Size() - answer.CPUs.Size(); siblings > 0 {
		if refusal := n.enough(o, a, siblings); !refusal.OK() {
			return Decision{}, refusal
		}
	}
	return n.decision(o, a, r, &answer), Refusal{}
}

// request returns the pod's request on this node. Most nodes have no policy, so the Ask's own request is enough.
func (n *Node) request(a *Ask) (*alloc.Request, Refusal) {
	if n.Policy == (NodePolicy{}) && n.PreferNodes.IsEmpty() {
		return &a.Request, Refusal{}
	}
	r := a.Request
	r.PreferNodes = n.PreferNodes
	refusal := n.Policy.apply(a, &r)
	return &r, refusal
}

// enough checks the sums before the CPUs are known, and after, where siblings stay empty.
func (n *Node) enough(o *Occupancy, a *Ask, siblings int) Refusal {
	if refusal := n.Room(o, a.Pod.Scheduled+a.hidden+int64(siblings)*milli); !refusal.OK() {
		return refusal
	}
	if o.Unknown == 0 {
		return Refusal{}
	}
	free := n.Given().Difference(o.Taken.CPUs())
	if a.Request.EfficiencyCores {
		free = n.Machine.Pinnable().Difference(o.Taken.CPUs())
	}
	want, left := a.CPUs()+siblings, free.Size()-o.Unknown
	if want > left {
		return Refusal{Code: UnknownCPUs, Want: int64(want), Have: int64(max(left, 0))}
	}
	return Refusal{}
}

// allocate asks the allocator. If the answer uses the last whole core, it asks again for each core that could stay in
// the shared pool.
func (n *Node) allocate(s *alloc.Scratch, o *Occupancy, r *alloc.Request) (alloc.Answer, Refusal) {
	answer, no := n.Machine.Allocate(s, &o.Taken, r)
	if no.Code != alloc.Placed {
		return alloc.Answer{}, Refusal{Code: Allocation, Alloc: no}
	}
	if before := n.unheld(o); !hasCore(n.Machine, before.Difference(answer.Occupied), o.Unknown) {
		return n.allocateBeside(s, o, r, before)
	}
	return answer, Refusal{}
}

// unheld returns the CPUs that no pod holds yet.
func (n *Node) unheld(o *Occupancy) cpuset.Set {
	return n.Machine.Topology().Containers().Difference(o.Taken.CPUs())
}

// mostHeldOut bounds how many cores are tried. Cores of one NUMA node and L3 domain are almost equal, so one of each is
// tried first.
const mostHeldOut = 16

// allocateBeside holds one free core out for the shared pool: the core that leaves the best answer. The best answer
// gives up the fewest preferences, then has the best vector; of equal cores it is the last in different domains. It
// tries mostHeldOut cores, so on a machine with more free cores a better choice may exist.
func (n *Node) allocateBeside(s *alloc.Scratch, o *Occupancy, r *alloc.Request, free cpuset.Set) (alloc.Answer, Refusal) {
	var best alloc.Answer
	found := false
	for _, core := range heldOut(n.Machine.Topology(), free) {
		taken := o.Taken
		taken.Withhold(core)
		answer, no := n.Machine.Allocate(s, &taken, r)
		if no.Code != alloc.Placed || !hasCore(n.Machine, free.Difference(answer.Occupied), o.Unknown) {
			continue
		}
		if !found || betterBeside(&answer, &best, r) {
			best, found = kept(answer), true
		}
	}
	if !found {
		return alloc.Answer{}, Refusal{Code: SharedPool, Want: int64(wanted(r)), Have: int64(max(free.Size()-o.Unknown, 0))}
	}
	return best, Refusal{}
}

// heldOut returns the whole free cores to try, the last ones first, and one of each NUMA node and L3 domain before all
// others.
func heldOut(t *topology.Topology, free cpuset.Set) []cpuset.Set {
	type domain struct {
		node topology.NodeID
		l3   topology.L3ID
	}
	seen := make(map[domain]bool)
	var first, more []cpuset.Set
	for _, core := range slices.Backward(t.Cores) {
		if !core.CPUs.IsSubsetOf(free) {
			continue
		}
		if at := (domain{core.Node, core.L3}); seen[at] {
			more = append(more, core.CPUs)
		} else {
			seen[at] = true
			first = append(first, core.CPUs)
		}
	}
	all := append(first, more...)
	return all[:min(len(all), mostHeldOut)]
}

// betterBeside reports whether a is better than b where both leave a core.
func betterBeside(a, b *alloc.Answer, r *alloc.Request) bool {
	if a.Dropped != b.Dropped {
		return a.Dropped < b.Dropped // the order in which Allocate gives up
	}
	return a.Vector.Compare(b.Vector, r.Bind, r.Strategy) < 0
}

func wanted(r *alloc.Request) int {
	n := 0
	for _, want := range r.Wants {
		n += want.CPUs
	}
	return n
}

// hasCore reports whether a whole core is among the CPUs, and still is when others get as many of them as are unknown.
func hasCore(m *alloc.Machine, cpus cpuset.Set, unknown int) bool {
	for _, core := range m.Topology().Cores {
		if core.CPUs.IsSubsetOf(cpus) && cpus.Size()-unknown >= core.CPUs.Size() {
			return true
		}
	}
	return false
}

// kept returns the answer with its own slices.
func kept(answer alloc.Answer) alloc.Answer {
	answer.Each, answer.L3s = slices.Clone(answer.Each), slices.Clone(answer.L3s)
	return answer
}

func (n *Node) decision(o *Occupancy, a *Ask, r *alloc.Request, answer *alloc.Answer) Decision {
	d := Decision{Answer: kept(*answer), Bind: r.Bind, Strategy: r.Strategy, machine: n.Machine}
	t := n.Machine.Topology()
	b := n.binder(o, &a.Pod)
	for i, cpus := range d.Answer.Each {
		nodes := b.bind(needOf(&a.Pod, i), nodesOf(t, cpus))
		if i == 0 {
			d.first = nodes
		} else {
			d.others = append(d.others, nodes)
		}
	}
	return d
}
