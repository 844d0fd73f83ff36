package placement

import (
	"slices"
	"strconv"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
)

// milli is one CPU in the unit of all accounting.
const milli = 1000

// Ask is what one pod asks of a node, prepared once for hundreds of nodes. It never changes and may be shared between
// goroutines.
type Ask struct {
	// Request is the allocator's request before the node's own policy. Its Wants are in the order of Pod.Pinned, or one
	// for all with PerPod.
	Request alloc.Request
	// Shape is equal for two pods exactly when every node answers both the same
	// way. Names are not part of it.
	Shape string
	// Pod is what the Ask was made from.
	Pod    workload.Pinning
	hidden int64
	below  int64
}

// AskOf returns what p asks for. p.Wanted must be true.
func AskOf(p workload.Pinning) Ask {
	cpus, limits := make([]int64, len(p.Pinned)), make([]int64, len(p.Pinned))
	for i, c := range p.Pinned {
		cpus[i], limits[i] = int64(c.CPUs)*milli, c.Limit
	}
	a := Ask{Pod: p, hidden: p.BeyondMilli(cpus, nil), below: p.BeyondMilli(limits, nil)}
	a.Request = alloc.Request{
		Bind:              named[alloc.Bind](p.Bind, v1alpha1.CPUBindSpreadByPCPUs),
		BindStrength:      strength(p.BindRequired),
		Exclusive:         exclusiveOf(p.Exclusive),
		ExclusiveStrength: strength(p.ExclusiveRequired),
		NUMA:              numaOf(p.NUMA),
		NUMAExclusive:     named[alloc.NUMAExclusive](p.NUMAExclusive, v1alpha1.NUMAExclusivePreferred, v1alpha1.NUMAExclusiveRequired),
		Strategy:          strategyOf(p.Strategy),
	}
	if p.StaticBurst {
		a.Request.Domain = alloc.OneL3ElseNUMA
	}
	for i, c := range p.Pinned {
		if i > 0 && p.PerPod {
			break
		}
		a.Request.Wants = append(a.Request.Wants, alloc.Want{Name: c.Name, CPUs: c.CPUs})
	}
	a.Shape = a.shape()
	return a
}

// Default sets the strategy to use if neither the pod nor the node names one. The zero value, as in AskOf, is
// MostAllocated.
func (a *Ask) Default(strategy v1alpha1.NUMAAllocateStrategy) {
	if a.Pod.Strategy == "" {
		a.Request.Strategy = strategyOf(strategy)
		a.Shape = a.shape()
	}
}

// CPUs returns how many CPUs the pod as a whole gets, siblings not counted.
func (a *Ask) CPUs() int { return a.Pod.CPUs() }

// HiddenMilli returns by how much the limits of the pinned containers exceed the pod's requests, in thousandths of a
// CPU. It excludes what no request could contain: siblings left empty, and the CPUs added by rounding up a fractional
// limit.
func (a *Ask) HiddenMilli() int64 { return a.below }

// podMemory returns the bound on the memory of all these containers together, or 0 if one of them has no bound.
func podMemory(p *workload.Pinning, containers []workload.PinnedContainer) int64 {
	if p.PodMemory > 0 {
		return p.PodMemory
	}
	sum := int64(0)
	for _, c := range containers {
		if c.Memory == 0 {
			return 0
		}
		sum += c.Memory
	}
	return sum
}

// shape encodes everything that a decision depends on, except the node.
func (a *Ask) shape() string {
	r, b := &a.Request, make([]byte, 0, 64)
	for i, want := range r.Wants {
		b = strconv.AppendInt(b, int64(want.CPUs), 10)
		b = append(b, '/')
		for one := range needOf(&a.Pod, i).bounds(0) {
			for _, number := range [...]int64{one.kind, one.bytes, one.request} {
				b = append(strconv.AppendInt(b, number, 10), '/')
			}
		}
		b = append(b, ',')
	}
	for _, one := range a.Pod.Besides.ScheduledHuge {
		b = append(strconv.AppendInt(b, one.Size, 10), ':')
		b = append(strconv.AppendInt(b, one.Bytes, 10), ' ')
	}
	for _, one := range a.Pod.Besides.Devices {
		b = append(append(b, one.Resource...), '=')
		b = append(strconv.AppendInt(b, one.Count, 10), ' ')
	}
	for _, number := range []int64{
		a.Pod.Scheduled, a.Pod.Besides.ScheduledMemory, a.hidden,
		int64(r.Bind), int64(r.BindStrength), int64(r.Exclusive), int64(r.ExclusiveStrength),
		int64(r.NUMAExclusive), int64(r.Domain), int64(r.Strategy),
	} {
		b = append(b, ' ')
		b = strconv.AppendInt(b, number, 10)
	}
	b = append(append(b, a.Pod.NUMA...), ' ')
	return string(append(b, a.Pod.Strategy...))
}

// named returns the value of the allocator that has a name. The names are those of the values 1, 2, …; any other name is
// that of the value 0.
func named[V ~uint8, N ~string](name N, names ...N) V { return V(slices.Index(names, name) + 1) }

func strength(required bool) alloc.Strength {
	if required {
		return alloc.Required
	}
	return alloc.Preferred
}

func exclusiveOf(p v1alpha1.CPUExclusivePolicy) alloc.Exclusive {
	return named[alloc.Exclusive](p, v1alpha1.CPUExclusivePCPULevel, v1alpha1.CPUExclusiveNUMANodeLevel)
}

// exclusiveText is the inverse of exclusiveOf, "" for none.
func exclusiveText(e alloc.Exclusive) v1alpha1.CPUExclusivePolicy {
	return [...]v1alpha1.CPUExclusivePolicy{"", v1alpha1.CPUExclusivePCPULevel, v1alpha1.CPUExclusiveNUMANodeLevel}[e]
}

func numaOf(p v1alpha1.NUMATopologyPolicy) alloc.NUMAPolicy {
	return named[alloc.NUMAPolicy](p, v1alpha1.NUMARestricted, v1alpha1.NUMASingleNUMANode)
}

func strategyOf(s v1alpha1.NUMAAllocateStrategy) alloc.Strategy {
	return named[alloc.Strategy](s, v1alpha1.NUMALeastAllocated, v1alpha1.NUMADistributeEvenly)
}
