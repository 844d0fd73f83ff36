package bench

import (
	"cmp"
	"math"
	"math/rand/v2"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// podSize is a number of CPUs, and how many of 100 pods request it.
type podSize struct{ cpus, weight int }

// podSizes is the mix of the trace: mostly small, some odd, few large. Its mean is about five CPUs.
func podSizes() []podSize {
	return []podSize{{1, 18}, {2, 22}, {3, 8}, {4, 20}, {5, 4}, {6, 5}, {8, 12}, {12, 3}, {16, 5}, {24, 1}, {32, 2}}
}

const (
	// The offered load swings between these multiples of the machine's CPUs, so that the trace meets a machine with
	// room, a full one and the way between them.
	leastLoad, mostLoad = 0.7, 1.3
	// swing is the length of one swing, in mean lifetimes.
	swing = 20.0
)

// traceEvent is one arrival or the departure that belongs to it.
type traceEvent struct {
	// at is the time in mean lifetimes of a pod.
	at   float64
	pod  int
	cpus int
	gone bool
}

// newTrace draws arrivals (Poisson, by the swinging load) and lifetimes (exponential) for a machine with capacity CPUs.
// It returns so many events, half of them arrivals. The same seed gives the same trace.
func newTrace(seed uint64, capacity, events int) []traceEvent {
	random := rand.New(rand.NewPCG(seed, 4))
	sizes := podSizes()
	mean, total := 0.0, 0
	for _, s := range sizes {
		mean += float64(s.cpus * s.weight)
		total += s.weight
	}
	mean /= float64(total)
	list := make([]traceEvent, 0, events)
	now := 0.0
	for pod := range events / 2 {
		load := (leastLoad+mostLoad)/2 + (mostLoad-leastLoad)/2*math.Sin(2*math.Pi*now/swing)
		now += random.ExpFloat64() * mean / (load * float64(capacity))
		cpus := drawSize(random, sizes, total)
		list = append(list,
			traceEvent{at: now, pod: pod, cpus: cpus},
			traceEvent{at: now + random.ExpFloat64(), pod: pod, cpus: cpus, gone: true})
	}
	slices.SortStableFunc(list, func(a, b traceEvent) int { return cmp.Compare(a.at, b.at) })
	return list
}

func drawSize(random *rand.Rand, sizes []podSize, total int) int {
	draw := random.IntN(total)
	for _, s := range sizes {
		if draw -= s.weight; draw < 0 {
			return s.cpus
		}
	}
	return sizes[len(sizes)-1].cpus
}

// PlaceCounts is the outcome of one trace in one arm.
type PlaceCounts struct {
	// Arrivals counts the pods that arrived, Admitted the pods that got CPUs.
	Arrivals int `json:"arrivals"`
	Admitted int `json:"admitted"`
	// OneNUMA and OneL3 count admitted pods within one NUMA node or one L3 domain.
	OneNUMA int `json:"oneNUMA"`
	OneL3   int `json:"oneL3"`
	// NUMANodes and L3s sum the nodes and domains of all admitted pods.
	NUMANodes int `json:"numaNodes"`
	L3s       int `json:"l3s"`
	// SharedCores sums, over admitted pods, the cores of which another pod held a thread when the pod was placed.
	SharedCores int `json:"sharedCores"`
}

// pickCPUs is how an arm chooses n CPUs while other CPUs are held; ok is false when it refuses.
type pickCPUs func(held cpuset.Set, n int) (cpus cpuset.Set, ok bool)

// runTrace plays the events against one picker. A CPU that is picked twice, or a wrong number of CPUs, is ErrPick:
// counts of a faulty picker mean nothing.
func runTrace(t *topology.Topology, events []traceEvent, pick pickCPUs) (PlaceCounts, error) {
	var counts PlaceCounts
	var held cpuset.Set
	pods := map[int]cpuset.Set{}
	units := newUnits(t)
	for _, e := range events {
		if e.gone {
			held = held.Difference(pods[e.pod])
			delete(pods, e.pod)
			continue
		}
		counts.Arrivals++
		cpus, ok := pick(held, e.cpus)
		if !ok {
			continue
		}
		if err := checkPick(t, held, cpus, e.cpus); err != nil {
			return counts, err
		}
		units.count(&counts, held, cpus)
		held, pods[e.pod] = held.Union(cpus), cpus
	}
	return counts, nil
}

// units finds the cores, L3 domains and NUMA nodes of CPUs.
type units struct {
	core, l3, node [cpuset.Max]int
	cores          []cpuset.Set
}

func newUnits(t *topology.Topology) *units {
	u := &units{}
	for i, c := range t.Cores {
		u.cores = append(u.cores, c.CPUs)
		for cpu := range c.CPUs.All() {
			u.core[cpu], u.l3[cpu], u.node[cpu] = i, int(c.L3), int(c.Node)
		}
	}
	return u
}

// count adds one admitted pod.
func (u *units) count(counts *PlaceCounts, held, cpus cpuset.Set) {
	nodes, l3s, cores := map[int]bool{}, map[int]bool{}, map[int]bool{}
	for cpu := range cpus.All() {
		nodes[u.node[cpu]], l3s[u.l3[cpu]] = true, true
		if u.cores[u.core[cpu]].Intersects(held) {
			cores[u.core[cpu]] = true
		}
	}
	counts.Admitted++
	counts.NUMANodes += len(nodes)
	counts.L3s += len(l3s)
	counts.SharedCores += len(cores)
	if len(nodes) == 1 {
		counts.OneNUMA++
	}
	if len(l3s) == 1 {
		counts.OneL3++
	}
}
