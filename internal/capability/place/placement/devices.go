package placement

import (
	"math"
	"math/bits"
	"slices"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// mostDevices bounds how many resources of a topology have their devices counted.
const mostDevices = 8

// Devices is how many devices of each resource there are, in the order of the topology's resources.
type Devices [mostDevices]int64

// CountDevices adds up devices by the resources of a topology, and ignores other devices.
func CountDevices(t *topology.Topology, all []workload.Device) (sum Devices) {
	for k := range t.Devices[:min(len(t.Devices), mostDevices)] {
		for _, one := range all {
			if one.Resource == t.Devices[k].Resource {
				sum[k] += one.Count
			}
		}
	}
	return sum
}

// deviceBounds returns the devices of a pod that has these CPUs.
func deviceBounds(t *topology.Topology, p *workload.Pinning, cpus cpuset.Set) (all []bound) {
	for k, count := range CountDevices(t, p.Besides.Devices) {
		if count > 0 {
			all = append(all, bound{nodesOf(t, cpus), kindOf(k), count, count})
		}
	}
	return all
}

// kindOf returns the kind of the bounds of a resource.
func kindOf(k int) int64 { return int64(-1 - k) }

// deviceAmounts returns the devices that the pod asks for, by claims too, and how many each NUMA node has left. The
// allocator uses only the first amounts: a pod with more claims and kinds of devices than alloc.Request.Amounts allows
// may get CPUs far from the others, and its decision does not say so.
func (n *Node) deviceAmounts(o *Occupancy, a *Ask) (all []alloc.Amount) {
	if n.Claims != nil {
		all = append(all, *n.Claims...)
	}
	t := n.Machine.Topology()
	if len(t.Devices) == 0 || len(a.Pod.Besides.Devices) == 0 {
		return all
	}
	for k, count := range CountDevices(t, a.Pod.Besides.Devices) {
		if count > 0 {
			all = append(all, alloc.Amount{Device: true, Want: count, Free: n.devicesLeft(o, k)})
		}
	}
	return all
}

// devicesLeft returns how many devices of a resource each NUMA node has left. The devices of a pod with CPUs in several
// NUMA nodes are divided among these in proportion to the nodes' devices. Those of pods without their own CPUs are
// divided among all nodes.
func (n *Node) devicesLeft(o *Occupancy, k int) []int64 {
	has := n.Machine.Topology().Devices[k].Nodes
	left, anywhere := slices.Clone(has), n.RequestedDevices[k]
	share := func(nodes nodeMask, count int64) {
		all := int64(0)
		for i := range has {
			if nodes&(1<<i) != 0 {
				all += has[i]
			}
		}
		for i := range has {
			if nodes&(1<<i) != 0 && all > 0 {
				left[i] -= (count*has[i] + all/2) / all
			}
		}
	}
	for _, one := range o.bounds {
		if one.kind == kindOf(k) {
			anywhere -= one.request
			share(one.nodes, one.bytes)
		}
	}
	share(^nodeMask(0), max(anywhere, 0))
	for i := range left {
		left[i] = max(left[i], 0)
	}
	return left
}

// missing counts the amounts that the NUMA nodes do not have together: kinds of devices, and memory.
func missing(amounts []alloc.Amount, nodes nodeMask) (devices, memory int) {
	for _, amount := range amounts {
		for rest := uint64(nodes); rest != 0; rest &= rest - 1 {
			amount.Want -= amount.Free[bits.TrailingZeros64(rest)]
		}
		switch {
		case amount.Want <= 0:
		case amount.Device:
			devices++
		default:
			memory++
		}
	}
	return devices, memory
}

// allocateNear asks the allocator, with the memory and devices of the NUMA nodes. If the fewest nodes do not have the
// devices, but several others together do, the pod gets CPUs of each of these: eight GPUs in two nodes are not fed from
// one.
func (n *Node) allocateNear(s *alloc.Scratch, o *Occupancy, a *Ask, r *alloc.Request) (alloc.Answer, Refusal) {
	amounts := n.amounts(o, a)
	if len(amounts) == 0 && n.SpanNodes.IsEmpty() {
		return n.allocate(s, o, r)
	}
	with := *r
	with.Amounts = amounts
	answer, refusal := n.allocateFirst(s, o, &with)
	if !refusal.OK() {
		return answer, refusal
	}
	if spans := n.spansBeyond(o, &with, &answer); len(spans) > 0 {
		if best, found := n.allocateSpans(s.Spare(), o, with, spans, answer.Dropped); found {
			return best, Refusal{}
		}
	}
	if answer.Divide(s); !hasCore(n.Machine, n.unheld(o).Difference(answer.Occupied), o.Unknown) {
		return n.allocate(s, o, &with)
	}
	return answer, Refusal{}
}

// allocateSpans returns the best answer of those that have CPUs in each node of a set and give up these preferences, if
// there is one.
func (n *Node) allocateSpans(s *alloc.Scratch, o *Occupancy, r alloc.Request, spans []nodeMask, dropped alloc.Dropped) (best alloc.Answer, found bool) {
	t := n.Machine.Topology()
	for _, span := range spans {
		r.Span = span.ids(t)
		answer, no := n.allocate(s, o, &r)
		if !no.OK() || answer.Dropped != dropped || nodesOf(t, answer.CPUs)&span != span {
			continue
		}
		if !found || betterBeside(&answer, &best, &r) {
			best, found = kept(answer), true
		}
	}
	return best, found
}

// allocateFirst asks the allocator for the fewest nodes. If no node has the devices, other nodes will probably replace
// the answer, so its CPUs are not divided among the containers yet.
func (n *Node) allocateFirst(s *alloc.Scratch, o *Occupancy, r *alloc.Request) (alloc.Answer, Refusal) {
	for i := range n.Machine.Topology().Nodes {
		if devices, _ := missing(r.Amounts, 1<<i); devices == 0 {
			return n.allocate(s, o, r)
		}
	}
	answer, no := n.Machine.Find(s, &o.Taken, r)
	if no.Code != alloc.Placed || !hasCore(n.Machine, n.unheld(o).Difference(answer.Occupied), o.Unknown) {
		return n.allocate(s, o, r)
	}
	return answer, Refusal{}
}

// spansBeyond returns the sets of NUMA nodes to try instead of the nodes of the answer, or none if these nodes have the
// devices.
func (n *Node) spansBeyond(o *Occupancy, r *alloc.Request, answer *alloc.Answer) []nodeMask {
	t := n.Machine.Topology()
	each := nodesWhere(t, func(one *topology.Node) bool { return n.SpanNodes.Contains(int(one.ID)) })
	switch {
	case each&^nodesOf(t, answer.CPUs) != 0:
		return []nodeMask{each}
	case answer.Vector.FarDevices > 0:
		return n.spans(o, r)
	}
	return nil
}

const (
	// mostSpans bounds how many sets of NUMA nodes are tried for the devices of a pod.
	mostSpans = 2
	// maxSpanned is the most NUMA nodes of a machine for which sets are tried.
	maxSpanned = 8
)

// spans returns sets of two or more NUMA nodes that have the devices and free CPUs together: the nearest of the smallest
// sets, and of these the ones that have the most of the memory.
func (n *Node) spans(o *Occupancy, r *alloc.Request) []nodeMask {
	t := n.Machine.Topology()
	if len(t.Nodes) > maxSpanned {
		return nil
	}
	var sets []nodeMask
	var lacks []int // amounts of memory that the sets do not have
	free, want := n.freeIn(o, r), wanted(r)
	for size := 2; len(sets) == 0 && size <= len(t.Nodes); size++ {
		nearest := math.MaxInt
		for set := nodeMask(1)<<size - 1; set < 1<<len(t.Nodes); set = next(set) {
			devices, memory := missing(r.Amounts, set)
			if devices > 0 || free.in(set) < want {
				continue
			}
			distance := within(t, set)
			if distance < nearest {
				nearest, sets, lacks = distance, sets[:0], lacks[:0]
			}
			if distance == nearest {
				at, _ := slices.BinarySearch(lacks, memory+1)
				sets, lacks = slices.Insert(sets, at, set), slices.Insert(lacks, at, memory)
				most := min(len(sets), mostSpans)
				sets, lacks = sets[:most], lacks[:most]
			}
		}
	}
	return sets
}

// freeCPUs is the most CPUs that each NUMA node can give.
type freeCPUs [maxSpanned]int

func (n *Node) freeIn(o *Occupancy, r *alloc.Request) (free freeCPUs) {
	cpus := n.Given()
	if r.EfficiencyCores {
		cpus = n.Machine.Pinnable()
	}
	cpus = cpus.Difference(o.Taken.CPUs())
	for i, node := range n.Machine.Topology().Nodes {
		free[i] = node.CPUs.Intersect(cpus).Size()
	}
	return free
}

// in returns how many CPUs the nodes can give together, or 0 if one of them can give none.
func (free *freeCPUs) in(nodes nodeMask) (sum int) {
	for rest := uint64(nodes); rest != 0; rest &= rest - 1 {
		here := free[bits.TrailingZeros64(rest)]
		if here == 0 {
			return 0
		}
		sum += here
	}
	return sum
}

// next returns the next greater set of the same size.
func next(set nodeMask) nodeMask {
	low := set & -set
	up := set + low
	return up | (set^up)/low>>2
}

// within returns the sum of the distances of all pairs of nodes.
func within(t *topology.Topology, nodes nodeMask) int {
	sum := 0
	for rest := uint64(nodes); rest != 0; rest &= rest - 1 {
		i := bits.TrailingZeros64(rest)
		for others := rest & (rest - 1); others != 0; others &= others - 1 {
			j := bits.TrailingZeros64(others)
			sum += max(t.Nodes[i].Distances[j], t.Nodes[j].Distances[i])
		}
	}
	return sum
}
