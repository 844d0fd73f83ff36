package alloc_test

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// drawTopology makes a machine of at most so many CPUs, of every shape: one to
// four threads a core, equal or not, domains nested or scattered or missing,
// CPUs numbered anyhow.
func drawTopology(t *rapid.T, most int) *topology.Topology {
	sizes := drawSizes(t, most)
	total := 0
	for _, n := range sizes {
		total += n
	}
	ids := drawNumbers(t, sizes, total)
	top := &topology.Topology{}
	nodeOf := drawGroups(t, "node", len(sizes), 4)
	l3Of := drawGroups(t, "l3", len(sizes), 6)
	socketOf := drawGroups(t, "socket", len(sizes), 3)
	hybrid := rapid.IntRange(0, 3).Draw(t, "hybrid") == 0
	for i, n := range sizes {
		c := topology.Core{Node: topology.NodeID(nodeOf[i]), L3: topology.L3ID(l3Of[i]), Socket: topology.SocketID(socketOf[i])}
		for range n {
			c.CPUs = c.CPUs.Add(ids[0])
			ids = ids[1:]
		}
		low, _ := c.CPUs.Min()
		c.ID = topology.CoreID(low)
		if hybrid {
			c.Kind = rapid.SampledFrom([]topology.Kind{topology.KindPerformance, topology.KindEfficiency}).Draw(t, "kind")
		}
		top.Online = top.Online.Union(c.CPUs)
		top.Cores = append(top.Cores, c)
	}
	slices.SortFunc(top.Cores, func(a, b topology.Core) int { return int(a.ID - b.ID) })
	addDomains(t, top)
	if rapid.IntRange(0, 2).Draw(t, "system") == 0 {
		top.Reserved = drawSubset(t, "reserved", top.Online, 4)
		top.Isolated = drawSubset(t, "isolated", top.Online, 6)
	}
	return top
}

func drawSizes(t *rapid.T, most int) []int {
	threads := rapid.SampledFrom([]int{1, 2, 2, 2, 4, 0, 0}).Draw(t, "threads")
	mixed := rapid.SampledFrom([]int{2, 2, 4}).Draw(t, "mixed")
	var sizes []int
	for total := 0; ; {
		n := threads
		if n == 0 {
			n = rapid.IntRange(1, mixed).Draw(t, "core")
		}
		if total += n; total > most || len(sizes) > 0 && rapid.IntRange(0, 11).Draw(t, "stop") == 0 {
			break
		}
		sizes = append(sizes, n)
	}
	if len(sizes) == 0 {
		sizes = []int{1}
	}
	return sizes
}

// drawNumbers returns the CPU ids core by core.
func drawNumbers(t *rapid.T, sizes []int, total int) []int {
	ids := make([]int, 0, total)
	for i := range total {
		ids = append(ids, i)
	}
	switch rapid.SampledFrom([]string{"adjacent", "apart", "shuffled"}).Draw(t, "numbers") {
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
		ids = rapid.Permutation(ids).Draw(t, "ids")
	}
	return ids
}

// drawGroups puts each core into a group, in order or scattered, rarely in none.
func drawGroups(t *rapid.T, what string, cores, most int) []int {
	count := rapid.IntRange(0, most).Draw(t, what+"s")
	how := rapid.IntRange(0, 9).Draw(t, what+" shape")
	of := make([]int, cores)
	for i := range of {
		switch {
		case count == 0:
			of[i] = topology.None
			if what == "node" {
				of[i] = 0
			}
		case how == 0:
			of[i] = rapid.IntRange(topology.None, count-1).Draw(t, what)
		case how <= 2:
			of[i] = rapid.IntRange(0, count-1).Draw(t, what)
		default:
			of[i] = i * count / cores
		}
	}
	return of
}

// addDomains lists the domains that cores are in. Ids of nodes have gaps.
func addDomains(t *rapid.T, top *topology.Topology) {
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
	near := rapid.IntRange(0, 1).Draw(t, "distances") == 0
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
				d = rapid.IntRange(10, 13).Draw(t, "distance")
			}
			top.Nodes[i].Distances = append(top.Nodes[i].Distances, d)
		}
	}
}

// drawSubset draws each CPU with a chance of one in so many.
func drawSubset(t *rapid.T, what string, of cpuset.Set, oneIn int) (s cpuset.Set) {
	for cpu := range of.All() {
		if rapid.IntRange(0, oneIn-1).Draw(t, what) == 0 {
			s = s.Add(cpu)
		}
	}
	return s
}

// drawHolds draws pods, some anyhow and some placed.
func drawHolds(t *rapid.T, m *alloc.Machine) (holds []hold, taken alloc.Taken) {
	left := m.Pinnable()
	var s alloc.Scratch
	for range rapid.IntRange(0, 4).Draw(t, "pods") {
		if rapid.Bool().Draw(t, "placed") {
			a, no := m.Allocate(&s, &taken, drawRequest(t, 3))
			if no.Code == alloc.Placed {
				holds = append(holds, a.Holding())
				left = left.Difference(a.Occupied)
				m.Hold(&taken, a.Holding())
			}
			continue
		}
		h := hold{CPUs: drawSubset(t, "held", left, rapid.IntRange(2, 6).Draw(t, "one in"))}
		if rapid.IntRange(0, 3).Draw(t, "special") == 0 {
			h.Exclusive = drawOf(t, alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel)
			h.SingleNUMA = rapid.Bool().Draw(t, "single")
		}
		left = left.Difference(h.CPUs)
		holds = append(holds, h)
		m.Hold(&taken, h)
	}
	return holds, taken
}

func drawOf[T any](t *rapid.T, of ...T) T {
	var zero T
	return rapid.SampledFrom(of).Draw(t, fmt.Sprintf("%T", zero))
}

func drawRequest(t *rapid.T, most int) *alloc.Request {
	r := &alloc.Request{
		Bind:            drawOf(t, alloc.FullPCPUs, alloc.FullPCPUs, alloc.SpreadByPCPUs),
		BindStrength:    drawOf(t, alloc.Preferred, alloc.Preferred, alloc.Required),
		Exclusive:       drawOf(t, alloc.NotExclusive, alloc.NotExclusive, alloc.NotExclusive, alloc.PCPULevel, alloc.NUMANodeLevel),
		NUMA:            drawOf(t, alloc.BestEffort, alloc.BestEffort, alloc.Restricted, alloc.SingleNUMANode),
		NUMAExclusive:   drawOf(t, alloc.NUMAShared, alloc.NUMAShared, alloc.NUMAShared, alloc.NUMAExclusivePreferred, alloc.NUMAExclusiveRequired),
		Domain:          drawOf(t, alloc.AnyDomain, alloc.AnyDomain, alloc.AnyDomain, alloc.OneL3ElseNUMA),
		Strategy:        drawOf(t, alloc.MostAllocated, alloc.LeastAllocated),
		EfficiencyCores: rapid.Bool().Draw(t, "efficiency"),
	}
	if r.Exclusive != alloc.NotExclusive {
		r.ExclusiveStrength = drawOf(t, alloc.Preferred, alloc.Required)
	}
	if rapid.IntRange(0, 3).Draw(t, "picky") == 0 {
		for range rapid.IntRange(1, 2).Draw(t, "preferred") {
			r.PreferNodes = r.PreferNodes.Add(3 * rapid.IntRange(0, 3).Draw(t, "node"))
		}
	}
	for i := range rapid.SampledFrom([]int{1, 1, 1, 2, 3}).Draw(t, "containers") {
		r.Wants = append(r.Wants, alloc.Want{Name: string(rune('c' - i)), CPUs: rapid.IntRange(1, most).Draw(t, "cpus")})
	}
	return r
}
