package rival

import "github.com/berth-project/berth/internal/value/cpuset"

// TopologyPolicy is the kubelet's topologyManagerPolicy.
type TopologyPolicy uint8

// The policies. NoTopology is the kubelet's default.
const (
	NoTopology TopologyPolicy = iota
	BestEffort
	Restricted
	SingleNUMANode
)

// Kubelet picks CPUs like the static policy of the kubelet's CPU manager. The zero value has the default options.
type Kubelet struct {
	// FullPCPUsOnly is the option full-pcpus-only. The kubelet refuses a request that is no multiple of the threads of
	// a core, and the siblings of reserved CPUs do not count as free.
	FullPCPUsOnly bool
	// AlignByUncore is the option prefer-align-cpus-by-uncorecache.
	AlignByUncore bool
	// Topology is the topology manager's policy, of scope container.
	Topology TopologyPolicy
}

// Pick takes n (at least 1) of the free CPUs. ok is false when the kubelet would reject the pod. Pick is deterministic.
func (k Kubelet) Pick(m *Machine, free cpuset.Set, n int) (cpus cpuset.Set, ok bool) {
	free = free.Intersect(m.given)
	if n > free.Size() {
		return cpuset.Set{}, false
	}
	if k.FullPCPUsOnly && (n%m.perCore != 0 || n > free.Difference(m.broken).Size()) {
		return cpuset.Set{}, false
	}
	if k.Topology == NoTopology {
		return k.packed(m, free, n), true
	}
	hint, ok := m.narrowest(free, n, k.Topology)
	if !ok {
		return cpuset.Set{}, false
	}
	// Missing CPUs come from outside the hint; with one provider of hints none are missing.
	aligned := hint.Intersect(free)
	cpus = k.packed(m, aligned, min(n, aligned.Size()))
	if missing := n - cpus.Size(); missing > 0 {
		cpus = cpus.Union(k.packed(m, free.Difference(cpus), missing))
	}
	return cpus, true
}

// packed takes n CPUs level by level from free, which has at least n.
func (k Kubelet) packed(m *Machine, free cpuset.Set, n int) cpuset.Set {
	t := m.count(free, n)
	if m.nodesFirst {
		t.wholeNodes()
		t.wholeSockets()
	} else {
		t.wholeSockets()
		t.wholeNodes()
	}
	if k.AlignByUncore {
		t.uncoreCaches()
	}
	t.wholeCores()
	t.singles()
	return t.taken
}

func (t *tally) wholeSockets() {
	for _, s := range t.socketOrder() {
		if t.inSocket[s] == t.machine.perSocket && t.need >= t.machine.sockets[s].size {
			t.takeAll(t.machine.sockets[s].cpus)
		}
	}
}

func (t *tally) wholeNodes() {
	for _, n := range t.nodeOrder() {
		if t.inNode[n] == t.machine.nodes[n].size && t.need >= t.machine.nodes[n].size {
			t.takeAll(t.machine.nodes[n].cpus)
		}
	}
}

func (t *tally) wholeCores() {
	for _, c := range t.coreOrder() {
		if t.inCore[c] == t.machine.perCore && t.need >= t.machine.cores[c].size {
			t.takeAll(t.machine.cores[c].cpus)
		}
	}
}

func (t *tally) singles() {
	for _, c := range t.coreOrder() {
		for cpu := range t.machine.cores[c].cpus.Intersect(t.free).All() {
			if t.need == 0 {
				return
			}
			t.take(cpu)
		}
	}
}

// uncoreCaches takes whole L3 domains while the request needs one. It takes the remainder from the first domain where
// the lowest cores with a free thread have exactly that number of CPUs.
func (t *tally) uncoreCaches() {
	for _, l := range t.l3Order() {
		if t.need >= t.machine.perL3 {
			t.wholeL3s()
		}
		if t.need == 0 {
			return
		}
		t.partOfL3(l)
		if t.need == 0 {
			return
		}
	}
}

func (t *tally) wholeL3s() {
	for _, l := range t.l3Order() {
		if t.inL3[l] == t.machine.l3s[l].size && t.need >= t.machine.l3s[l].size {
			t.takeAll(t.machine.l3s[l].cpus)
		}
	}
}

func (t *tally) partOfL3(l int) {
	cores := (t.need + t.machine.perCore - 1) / t.machine.perCore
	var lowest cpuset.Set
	for c := 0; c < len(t.machine.cores) && cores > 0; c++ {
		if t.inCore[c] > 0 && t.machine.l3Of[c] == l {
			lowest = lowest.Union(t.machine.cores[c].cpus.Intersect(t.free))
			cores--
		}
	}
	// An odd request leaves the highest thread free; a larger surplus does not fit.
	if last, some := lowest.Max(); some && t.need%2 != 0 && t.machine.perCore > 1 && lowest.Size() > t.need {
		lowest = lowest.Remove(last)
	}
	if lowest.Size() == t.need {
		t.takeAll(lowest)
	}
}

// The orders sort by free CPUs within the order of the level above, which depends on whether nodes hold sockets or
// sockets hold nodes.

func (t *tally) socketOrder() []int {
	if !t.machine.nodesFirst {
		return fullestFirst(upTo(len(t.machine.sockets)), t.inSocket)
	}
	return nested(t.nodeOrder(), t.machine.socketsIn, t.inSocket)
}

func (t *tally) nodeOrder() []int {
	if t.machine.nodesFirst {
		return fullestFirst(upTo(len(t.machine.nodes)), t.inNode)
	}
	return nested(t.socketOrder(), t.machine.nodesIn, t.inNode)
}

func (t *tally) l3Order() []int { return nested(t.nodeOrder(), t.machine.l3sIn, t.inL3) }

func (t *tally) coreOrder() []int {
	if t.machine.nodesFirst {
		return nested(t.socketOrder(), t.machine.coresInSocket, t.inCore)
	}
	return nested(t.nodeOrder(), t.machine.coresInNode, t.inCore)
}

// nested sorts the inner units of each outer unit, in the order of the outer units.
func nested(outer []int, inner [][]int, free []int) []int {
	var list []int
	for _, o := range outer {
		list = append(list, fullestFirst(inner[o], free)...)
	}
	return list
}
