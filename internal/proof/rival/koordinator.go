package rival

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/value/cpuset"
)

// Koordinator picks CPUs like the CPU accumulator of Koordinator's scheduler. The zero value has its defaults:
// FullPCPUs, LeastAllocated, no NUMA policy.
type Koordinator struct {
	// Spread selects the bind policy SpreadByPCPUs instead of FullPCPUs.
	Spread bool
	// MostAllocated fills the fullest NUMA node first.
	MostAllocated bool
	// SingleNUMANode is the NUMA topology policy of that name: all CPUs come from one node, or Pick refuses.
	SingleNUMANode bool
}

// Pick takes n (at least 1) of the free CPUs; ok is false when Koordinator refuses. Pick is deterministic.
func (k Koordinator) Pick(m *Machine, free cpuset.Set, n int) (cpus cpuset.Set, ok bool) {
	t := m.count(free, n)
	if n > t.free.Size() {
		return cpuset.Set{}, false
	}
	ok = k.oneNode(t) || !k.SingleNUMANode && (k.oneSocket(t) || k.anywhere(t))
	return t.taken, ok
}

// oneNode takes all CPUs from the first NUMA node, in the strategy's order, that fits the bind policy. With
// SingleNUMANode enough free CPUs suffice.
func (k Koordinator) oneNode(t *tally) bool {
	nodes := k.order(upTo(len(t.machine.units[node])), t.in[node])
	for _, n := range nodes {
		if k.fits(t, t.machine.within[node][core][n], t.in[node][n]) {
			return k.fill(t, t.machine.within[node][core][n])
		}
	}
	for _, n := range nodes {
		if k.SingleNUMANode && t.in[node][n] >= t.need {
			return k.fill(t, t.machine.within[node][core][n])
		}
	}
	return false
}

func (k Koordinator) oneSocket(t *tally) bool {
	for _, s := range k.order(upTo(len(t.machine.units[socket])), t.in[socket]) {
		if k.fits(t, t.machine.within[socket][core][s], t.in[socket][s]) {
			return k.fill(t, k.byNode(t, t.machine.within[socket][node][s]))
		}
	}
	return false
}

func (k Koordinator) anywhere(t *tally) bool {
	return k.fill(t, k.byNode(t, upTo(len(t.machine.units[node]))))
}

// fits reports whether the cores, with so many free CPUs, hold the request as the bind policy requires: whole cores, or
// a core for each thread.
func (k Koordinator) fits(t *tally, cores []int, free int) bool {
	whole, some := 0, 0
	for _, c := range cores {
		if t.in[core][c] == t.machine.units[core][c].size {
			whole++
		}
		if t.in[core][c] > 0 {
			some++
		}
	}
	if k.Spread {
		return some >= t.need || len(cores) < t.need && free >= t.need
	}
	return whole >= t.need/t.machine.perCore && free >= t.need
}

// fill takes the needed CPUs from the cores in their order: first as the bind policy requires, then any free CPU.
func (k Koordinator) fill(t *tally, cores []int) bool {
	if k.Spread {
		for t.need > 0 && k.oneOfEach(t, cores) {
			continue
		}
		return t.need == 0
	}
	for _, c := range cores {
		if t.in[core][c] == t.machine.units[core][c].size && t.need >= t.machine.units[core][c].size {
			t.takeAll(t.machine.units[core][c].cpus)
		}
	}
	for _, broken := range []bool{true, false} {
		for _, c := range cores {
			if broken == (t.in[core][c] < t.machine.units[core][c].size) {
				t.some(c, t.need)
			}
		}
	}
	return t.need == 0
}

// oneOfEach takes one thread of each core, wholly free cores first, and reports whether it found any.
func (k Koordinator) oneOfEach(t *tally, cores []int) bool {
	order := slices.Clone(cores)
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.in[core][b], t.in[core][a]) })
	before := t.need
	for _, c := range order {
		t.some(c, min(1, t.need))
	}
	return t.need < before
}

// some takes up to n free CPUs of a core.
func (t *tally) some(c, n int) {
	for cpu := range t.machine.units[core][c].cpus.Intersect(t.free).All() {
		if n == 0 {
			return
		}
		t.take(cpu)
		n--
	}
}

// byNode returns the cores of the nodes in the strategy's order.
func (k Koordinator) byNode(t *tally, nodes []int) []int {
	var cores []int
	for _, n := range k.order(nodes, t.in[node]) {
		cores = append(cores, t.machine.within[node][core][n]...)
	}
	return cores
}

// order sorts units by the strategy: fewest or most free CPUs first; ties go to the lower id.
func (k Koordinator) order(units, free []int) []int {
	sorted := fullestFirst(units, free)
	if !k.MostAllocated {
		slices.SortStableFunc(sorted, func(a, b int) int { return cmp.Compare(free[b], free[a]) })
	}
	return sorted
}
