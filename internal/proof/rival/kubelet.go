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
	t.whole(m.above[node]) // socket or node, the larger
	t.whole(m.above[core]) // the other
	if k.AlignByUncore {
		t.uncoreCaches()
	}
	t.whole(core)
	t.singles()
	return t.taken
}

// whole takes the wholly free units of a kind that the request still needs wholly.
func (t *tally) whole(k kind) {
	for _, i := range t.order(k) {
		if u := &t.machine.units[k][i]; t.in[k][i] == u.whole && t.need >= u.size {
			t.takeAll(u.cpus)
		}
	}
}

func (t *tally) singles() {
	for _, c := range t.order(core) {
		for cpu := range t.machine.units[core][c].cpus.Intersect(t.free).All() {
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
	for _, l := range t.order(l3) {
		if t.need >= t.machine.perL3 {
			t.whole(l3)
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

func (t *tally) partOfL3(domain int) {
	cores := (t.need + t.machine.perCore - 1) / t.machine.perCore
	var lowest cpuset.Set
	for c := 0; c < len(t.machine.units[core]) && cores > 0; c++ {
		if t.in[core][c] > 0 && t.machine.l3Of[c] == domain {
			lowest = lowest.Union(t.machine.units[core][c].cpus.Intersect(t.free))
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

// order returns the units of a kind, sorted by free CPUs within the order of the kind above.
func (t *tally) order(k kind) []int {
	above := t.machine.above[k]
	if above == k {
		return fullestFirst(upTo(len(t.machine.units[k])), t.in[k])
	}
	var list []int
	for _, outer := range t.order(above) {
		list = append(list, fullestFirst(t.machine.within[above][k][outer], t.in[k])...)
	}
	return list
}
