package alloc_test

import (
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// dice is the source of random states: the same seed gives the same state.
type dice struct{ *rand.Rand }

func newDice(seed uint64) *dice { return &dice{rand.New(rand.NewPCG(seed, 0))} }

// between returns a random number from lo to hi.
func (d *dice) between(lo, hi int) int { return lo + d.IntN(hi-lo+1) }

func (d *dice) oneIn(n int) bool { return d.IntN(n) == 0 }

// drawTopology returns a machine of at most the given number of CPUs and any shape. It has one to four threads per
// core, equal or not. Domains are nested, scattered or missing, and CPU numbers are arbitrary.
func drawTopology(t *dice, most int) *topology.Topology {
	if t.oneIn(3) {
		return drawRegular(t, most)
	}
	sizes := drawSizes(t, most)
	total := 0
	for _, n := range sizes {
		total += n
	}
	ids := drawNumbers(t, sizes, total)
	top := &topology.Topology{}
	nodeOf := drawGroups(t, len(sizes), 4, 0)
	l3Of := drawGroups(t, len(sizes), 6, topology.None)
	socketOf := drawGroups(t, len(sizes), 3, topology.None)
	hybrid := t.oneIn(4)
	for i, n := range sizes {
		c := topology.Core{Node: topology.NodeID(nodeOf[i]), L3: topology.L3ID(l3Of[i]), Socket: topology.SocketID(socketOf[i])}
		for range n {
			c.CPUs = c.CPUs.Add(ids[0])
			ids = ids[1:]
		}
		low, _ := c.CPUs.Min()
		c.ID = topology.CoreID(low)
		if hybrid {
			c.Kind = drawOf(t, topology.KindPerformance, topology.KindEfficiency)
		}
		top.Online = top.Online.Union(c.CPUs)
		top.Cores = append(top.Cores, c)
	}
	slices.SortFunc(top.Cores, func(a, b topology.Core) int { return int(a.ID - b.ID) })
	addDomains(t, top)
	if t.oneIn(3) {
		top.Reserved = drawSubset(t, top.Online, 4)
		top.Isolated = drawSubset(t, top.Online, 6)
	}
	return top
}

// drawRegular returns a realistic machine of several nodes, except for its CPU numbers and some offline CPUs.
func drawRegular(t *dice, most int) *topology.Topology {
	s := drawOf(t, shape{1, 2, 2, 2, 2}, shape{1, 2, 2, 2, 1}, shape{1, 4, 1, 2, 2}, shape{2, 2, 1, 2, 2}, shape{2, 2, 1, 3, 1},
		shape{2, 1, 2, 2, 2}, shape{2, 2, 2, 1, 2}, shape{1, 4, 2, 2, 1}, shape{1, 3, 1, 2, 2}, shape{2, 3, 1, 1, 2}, shape{1, 1, 3, 2, 2}, shape{1, 1, 4, 2, 2},
		shape{1, 1, 4, 1, 4}, shape{1, 2, 1, 2, 4}, shape{1, 1, 2, 2, 4}, shape{1, 1, 5, 1, 3}, shape{1, 2, 2, 1, 4}, shape{1, 1, 2, 1, 8}, shape{1, 1, 1, 3, 5})
	if s.cpus() > most {
		s = shape{1, 2, 1, 1, 2}
	}
	top := s.topology()
	if t.oneIn(2) {
		top, _ = shuffle(t, top, 0)
	}
	for i := range top.Cores {
		c := &top.Cores[i]
		if high, _ := c.CPUs.Max(); c.CPUs.Size() > 1 && t.oneIn(12) {
			c.CPUs = c.CPUs.Remove(high)
			top.Online = top.Online.Remove(high)
		}
	}
	addDies(t, top)
	return top
}

func drawSizes(t *dice, most int) []int {
	threads := drawOf(t, 1, 2, 2, 2, 4, 0, 0)
	mixed := drawOf(t, 2, 2, 4)
	var sizes []int
	for total := 0; ; {
		n := threads
		if n == 0 {
			n = t.between(1, mixed)
		}
		if total += n; total > most || len(sizes) > 0 && t.oneIn(40) {
			break
		}
		sizes = append(sizes, n)
	}
	if len(sizes) == 0 {
		sizes = []int{1}
	}
	return sizes
}

// drawNumbers returns the CPU numbers core by core.
func drawNumbers(t *dice, sizes []int, total int) []int {
	ids := make([]int, 0, total)
	for i := range total {
		ids = append(ids, i)
	}
	switch drawOf(t, "adjacent", "apart", "shuffled") {
	case "apart":
		next, byThread := 0, map[[2]int]int{}
		for thread := range slices.Max(sizes) {
			for core, n := range sizes {
				if thread < n {
					byThread[[2]int{core, thread}] = next
					next++
				}
			}
		}
		ids = ids[:0]
		for core, n := range sizes {
			for thread := range n {
				ids = append(ids, byThread[[2]int{core, thread}])
			}
		}
	case "shuffled":
		t.Shuffle(len(ids), func(i, j int) { ids[i], ids[j] = ids[j], ids[i] })
	}
	return ids
}

// drawGroups assigns each core to a group, in order or scattered, rarely to none. Without groups, all cores get the
// value without.
func drawGroups(t *dice, cores, most, without int) []int {
	count := t.between(0, most)
	how := t.between(0, 9)
	of := make([]int, cores)
	for i := range of {
		switch {
		case count == 0:
			of[i] = without
		case how == 0:
			of[i] = t.between(topology.None, count-1)
		case how <= 2:
			of[i] = t.between(0, count-1)
		default:
			of[i] = i * count / cores
		}
	}
	return of
}

// addDomains adds the domains of the cores to the machine. Node numbers have gaps.
func addDomains(t *dice, top *topology.Topology) {
	nodes, l3s, sockets := map[int]cpuset.Set{}, map[int]cpuset.Set{}, map[int]cpuset.Set{}
	for i := range top.Cores {
		c := &top.Cores[i]
		if c.Node != topology.None {
			c.Node *= 3
		}
		nodes[int(c.Node)] = nodes[int(c.Node)].Union(c.CPUs)
		l3s[int(c.L3)] = l3s[int(c.L3)].Union(c.CPUs)
		sockets[int(c.Socket)] = sockets[int(c.Socket)].Union(c.CPUs)
	}
	addDies(t, top)
	near := t.oneIn(2)
	for id := range 10 {
		if cpus, ok := nodes[id]; ok {
			top.Nodes = append(top.Nodes, topology.Node{ID: topology.NodeID(id), CPUs: cpus})
		}
		if cpus, ok := l3s[id]; ok {
			top.L3 = append(top.L3, topology.L3{ID: topology.L3ID(id), CPUs: cpus})
		}
		if cpus, ok := sockets[id]; ok {
			top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(id), CPUs: cpus})
		}
	}
	for i := range top.Nodes {
		for j := range top.Nodes {
			d := 10 + 10*min(1, max(i-j, j-i))
			if !near && i != j {
				d = t.between(10, 13)
			}
			top.Nodes[i].Distances = append(top.Nodes[i].Distances, d)
		}
	}
}

// addDies divides the nodes among dies, sometimes with the cores of one node in several dies.
func addDies(t *dice, top *topology.Topology) {
	count := t.between(0, 3)
	if count == 0 {
		return
	}
	dies, scattered := make([]cpuset.Set, count), t.oneIn(8)
	for i := range top.Cores {
		c := &top.Cores[i]
		die := (int(c.Node) + 6) % count
		if scattered {
			die = t.between(0, count-1)
		}
		dies[die] = dies[die].Union(c.CPUs)
	}
	for i, cpus := range dies {
		if !cpus.IsEmpty() {
			top.Dies = append(top.Dies, topology.Die{ID: topology.DieID(i), CPUs: cpus})
		}
	}
}

// drawSubset draws each CPU with probability 1/oneIn.
func drawSubset(t *dice, of cpuset.Set, oneIn int) (s cpuset.Set) {
	for cpu := range of.All() {
		if t.between(0, oneIn-1) == 0 {
			s = s.Add(cpu)
		}
	}
	return s
}

// drawHolds draws pods, some with arbitrary CPUs and some placed by the allocator.
func drawHolds(t *dice, m *alloc.Machine) (holds []hold, taken alloc.Taken) {
	left := m.Pinnable()
	var s alloc.Scratch
	for range t.between(0, 3) {
		if t.oneIn(2) {
			a, no := m.Allocate(&s, &taken, drawRequest(t, 3))
			if no.Code == alloc.Placed {
				holds = append(holds, a.Holding())
				left = left.Difference(a.Occupied)
				m.Hold(&taken, a.Holding())
			}
			continue
		}
		h := hold{CPUs: drawSubset(t, left, t.between(2, 8))}
		if t.oneIn(5) {
			h.Exclusive = drawOf(t, alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel)
			h.SingleNUMA = t.oneIn(2)
		}
		left = left.Difference(h.CPUs)
		holds = append(holds, h)
		m.Hold(&taken, h)
	}
	return holds, taken
}

func drawOf[T any](t *dice, of ...T) T { return of[t.IntN(len(of))] }

func drawRequest(t *dice, most int) *alloc.Request {
	r := &alloc.Request{
		Bind:            drawOf(t, alloc.FullPCPUs, alloc.FullPCPUs, alloc.SpreadByPCPUs),
		BindStrength:    drawOf(t, alloc.Preferred, alloc.Preferred, alloc.Required),
		Exclusive:       drawOf(t, alloc.NotExclusive, alloc.NotExclusive, alloc.NotExclusive, alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel),
		NUMA:            drawOf(t, alloc.BestEffort, alloc.BestEffort, alloc.Restricted, alloc.SingleNUMANode),
		NUMAExclusive:   drawOf(t, alloc.NUMAShared, alloc.NUMAShared, alloc.NUMAShared, alloc.NUMAExclusivePreferred, alloc.NUMAExclusiveRequired),
		Domain:          drawOf(t, alloc.AnyDomain, alloc.AnyDomain, alloc.AnyDomain, alloc.OneL3ElseNUMA),
		Strategy:        drawOf(t, alloc.MostAllocated, alloc.LeastAllocated, alloc.MostAllocated, alloc.LeastAllocated, alloc.DistributeEvenly),
		EfficiencyCores: t.oneIn(2),
	}
	if r.Exclusive != alloc.NotExclusive {
		r.ExclusiveStrength = drawOf(t, alloc.Preferred, alloc.Required)
	}
	if t.oneIn(4) {
		for range t.between(1, 2) {
			r.PreferNodes = r.PreferNodes.Add(drawOf(t, 0, 0, 1, 2, 3, 3, 6, 9))
		}
	}
	if t.oneIn(5) {
		for range t.between(2, 3) {
			r.Span = r.Span.Add(drawOf(t, 0, 0, 1, 1, 2, 3))
		}
	}
	if t.oneIn(3) {
		for range t.between(1, 4) { // memory, huge pages of two sizes, devices
			a := alloc.Amount{Device: t.oneIn(2), Want: int64(t.between(0, 30))}
			for range 10 { // the maximum number of nodes
				a.Free = append(a.Free, int64(t.between(-3, 20)))
			}
			r.Amounts = append(r.Amounts, a)
		}
	}
	// Requests for whole cores are mostly multiples of a core.
	unit := 1
	if r.Bind == alloc.FullPCPUs && r.BindStrength == alloc.Required && !t.oneIn(4) {
		unit = drawOf(t, 1, 2, 2, 4)
	}
	least := 1
	if t.oneIn(2) {
		least = max(1, most/3) // often more than a node has
	}
	left := max(unit, t.between(least, max(1, most))/unit*unit)
	for i := range drawOf(t, 1, 1, 2, 3) {
		cpus := left
		if i == 0 || t.oneIn(2) {
			cpus = max(unit, t.between(1, left)/unit*unit)
		}
		r.Wants = append(r.Wants, alloc.Want{Name: string(rune('c' - i)), CPUs: cpus})
		if left -= cpus; left < unit {
			break
		}
	}
	return r
}
