package placement

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/workload"
)

// Held is what one bound pod holds of its node, read once from its annotation.
// It does not change and belongs to the machine it was made with. The zero
// value holds nothing.
type Held struct {
	holding alloc.Holding
	extra   int64 // thousandths beyond the request, siblings left empty included
	unknown int32
	bounds  []bound
}

// CPUs returns the CPUs that are known to be held, siblings not counted.
func (h *Held) CPUs() cpuset.Set { return h.holding.CPUs }

// Unknown returns how many CPUs the pod was promised without it being known,
// or to be believed, which.
func (h *Held) Unknown() int { return int(h.unknown) }

// ExtraMilli returns by how much what is held and promised exceeds the requests
// of the pinned containers, in thousandths of a CPU.
func (h *Held) ExtraMilli() int64 { return h.extra }

// HeldBy returns what a bound pod holds by its annotation berth.dev/placement
// ("" where it has none). Anybody may have written that, so a container's part
// counts only if it can be read, its CPUs can be pinned on this machine, no
// other container of the pod has them, and they are as many as its limit says;
// else the pod holds as many unknown CPUs. Where the pod was changed since its
// creation the number is not checked, since a resize leaves a pod the CPUs it
// has. Exclusivity counts only if the pod asks for it. A p without Wanted holds
// nothing, unless a change took from it what its CPUs were given for. m may be
// nil for a node whose topology nobody knows: all CPUs are then unknown.
func HeldBy(m *alloc.Machine, p workload.Pinning, annotation string) Held {
	if !p.Wanted && (!p.Changed || p.Source == "") {
		return Held{}
	}
	r := claimReader{machine: m, pod: &p}
	claims := make([]claim, wants(&p))
	var granted alloc.Holding
	if m != nil && annotation != "" {
		placed, problems := v1alpha1.DecodePlacement(annotation)
		if len(problems) == 0 {
			claims = r.read(placed, claims)
			if placed.Exclusive == p.Exclusive {
				granted.Exclusive = exclusiveOf(p.Exclusive)
			}
			granted.SingleNUMA = placed.NUMAExclusive && p.NUMAExclusive != ""
		}
	}
	return hold(m, &p, granted, claims)
}

// claim is the part of one of the pod's Wants: CPUs is empty where nothing that
// can be believed is known.
type claim struct {
	cpus cpuset.Set
	mems nodeMask
}

// wants returns how many sets of CPUs a pod gets.
func wants(p *workload.Pinning) int {
	if p.PerPod {
		return min(1, len(p.Pinned))
	}
	return len(p.Pinned)
}

// hold adds claims to what was granted besides. Claims after those of the pod's
// Wants are for containers that are not pinned any more.
func hold(m *alloc.Machine, p *workload.Pinning, granted alloc.Holding, claims []claim) Held {
	h := Held{holding: granted}
	counts := make([]int, wants(p))
	for i, c := range claims {
		n := c.cpus.Size()
		h.holding.CPUs = h.holding.CPUs.Union(c.cpus)
		switch {
		case i >= len(counts):
			h.extra += int64(n) * milli
			continue
		case n == 0:
			n = p.Pinned[i].CPUs
			h.unknown += int32(n)
		case c.mems != 0 && memoryOf(p, i) > 0:
			h.bounds = append(h.bounds, bound{nodes: c.mems, bytes: memoryOf(p, i)})
		}
		counts[i] = n
	}
	if p.Wanted {
		h.extra += hidden(p, counts)
	}
	if !h.holding.CPUs.IsEmpty() {
		h.extra += int64(h.occupied(m).Size()-h.holding.CPUs.Size()) * milli
	}
	return h
}

// memoryOf returns what bounds the memory of a Want in bytes.
func memoryOf(p *workload.Pinning, i int) int64 {
	if p.PerPod {
		return podMemory(p)
	}
	return p.Pinned[i].Memory
}

// occupied returns the CPUs that nobody else may have: those held, and their
// siblings where they are to stay empty.
func (h *Held) occupied(m *alloc.Machine) cpuset.Set {
	if h.holding.Exclusive != alloc.PCPULevel {
		return h.holding.CPUs
	}
	var alone alloc.Taken
	m.Hold(&alone, h.holding)
	return alone.CPUs()
}

// claimReader believes what it can of a placement.
type claimReader struct {
	machine *alloc.Machine
	pod     *workload.Pinning
	used    cpuset.Set
}

func (r *claimReader) read(placed v1alpha1.Placement, claims []claim) []claim {
	if r.pod.PerPod {
		return r.readShared(placed, claims)
	}
	for i, c := range r.pod.Pinned {
		if part, found := placed.Containers[c.Name]; found {
			claims[i] = r.part(part, c.CPUs)
		}
	}
	if !r.pod.Changed {
		return claims
	}
	for _, name := range slices.Sorted(maps.Keys(placed.Containers)) {
		pinned := func(c workload.PinnedContainer) bool { return c.Name == name }
		if !slices.ContainsFunc(r.pod.Pinned, pinned) {
			claims = append(claims, r.part(placed.Containers[name], 0))
		}
	}
	return claims
}

// readShared reads the one set that all containers must agree on.
func (r *claimReader) readShared(placed v1alpha1.Placement, claims []claim) []claim {
	var first v1alpha1.ContainerPlacement
	for i, c := range r.pod.Pinned {
		part, found := placed.Containers[c.Name]
		if i == 0 {
			first = part
		}
		if !found || part.CPUs != first.CPUs {
			return claims
		}
	}
	if len(claims) > 0 {
		claims[0] = r.part(first, r.pod.CPUs())
	}
	return claims
}

// part returns the claim of one container that should have count CPUs.
func (r *claimReader) part(part v1alpha1.ContainerPlacement, count int) claim {
	cpus, err := cpuset.Parse(part.CPUs)
	if err != nil || cpus.IsEmpty() || !cpus.IsSubsetOf(r.machine.Pinnable()) || cpus.Intersects(r.used) {
		return claim{}
	}
	if cpus.Size() != count && !r.pod.Changed {
		return claim{}
	}
	r.used = r.used.Union(cpus)
	mems, err := cpuset.Parse(part.Mems)
	if err != nil {
		return claim{cpus: cpus}
	}
	return claim{cpus: cpus, mems: maskOf(r.machine.Topology(), mems)}
}
