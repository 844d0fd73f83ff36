package grant

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/lending"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// Origin says what chose the CPUs of a grant.
type Origin uint8

const (
	// ByScheduler chose them in the placement.
	ByScheduler Origin = iota
	// ByAgent chose them here.
	ByAgent
	// ByRuntime is what containers were found running on.
	ByRuntime
	// ByMove is what the pod was moved to.
	ByMove
)

// String says it as messages and events do.
func (o Origin) String() string {
	switch o {
	case ByScheduler:
		return "by its placement"
	case ByAgent:
		return "chosen by the agent of this node"
	case ByMove:
		return "moved by a repack"
	default:
		return "found running on them"
	}
}

// Grant is what a pod has exclusively. It does not change.
type Grant struct {
	// Parts are by the name of the container.
	Parts map[string]Part
	// Burst says that the pod keeps its quotas, and may borrow other CPUs besides.
	Burst bool
	// Exclusive and NUMAExclusive are as in the placement.
	Exclusive     v1alpha1.CPUExclusivePolicy
	NUMAExclusive bool
	// From is what chose the CPUs.
	From Origin
	// Beside are CPUs from before a move, which containers may still be on.
	Beside cpuset.Set

	// Machine is that on which the rest follows from the above, and Held what placement counts.
	Machine *alloc.Machine
	Held    placement.Held
	// Occupied are the CPUs of all parts, and the siblings that stay empty.
	Occupied cpuset.Set
}

// noHash stands where no hash is known: the reader of the placement here ignores the
// hash.
const noHash = "0000000000000000"

// Placement returns the grant as an annotation.
func (g *Grant) Placement(m *alloc.Machine, hash string) v1alpha1.Placement {
	p := v1alpha1.Placement{
		V: v1alpha1.PlacementVersion, Topology: hash, Exclusive: g.Exclusive, NUMAExclusive: g.NUMAExclusive,
		Containers: make(map[string]v1alpha1.ContainerPlacement, len(g.Parts)),
	}
	if len(hash) != len(noHash) {
		p.Topology = noHash
	}
	policy, domain := v1alpha1.PlacementExclusive, ""
	if g.Burst {
		var all Total
		for _, one := range g.Parts {
			all.Add(one)
		}
		policy = v1alpha1.PlacementStaticBurst
		domain, _ = lending.Domain(m.Topology(), all.Part().CPUs)
	}
	for name, one := range g.Parts {
		mems := one.Mems
		if mems.IsEmpty() {
			mems = MemoryNodes(m)
		}
		p.Containers[name] = v1alpha1.ContainerPlacement{
			CPUs: one.CPUs.String(), Mems: mems.String(), Policy: policy, Domain: domain, First: one.First.String(),
		}
	}
	return p
}

// On returns the grant as it is on a machine, with parts that are as many as they
// are, whatever the limits say.
func (g Grant) On(m *alloc.Machine, pin workload.Pinning) *Grant {
	g.Machine, g.Burst = m, pin.StaticBurst
	counted := g
	if !pin.Wanted || !pin.PerPod {
		// Init containers of a pod that is gone share CPUs with others of the pod.
		pin.PerPod, counted.Parts = false, disjoint(g.Parts)
	}
	p := counted.Placement(m, noHash)
	g.Held = placement.HeldBy(m, only(pin, counted.Parts), p.Encode())
	g.Occupied = occupied(m, &g.Held)
	return g.Leaving(g.Beside)
}

// Own returns the CPUs of all containers, without those that they leave.
func (g *Grant) Own() cpuset.Set {
	var all Total
	for _, one := range g.Parts {
		all.Add(one)
	}
	return all.Part().CPUs
}

// Bare says that the NUMA nodes of some part are not known.
func (g *Grant) Bare() bool {
	for _, one := range g.Parts {
		if one.Bare() {
			return true
		}
	}
	return false
}

// Leaving returns the grant with CPUs besides, which the pod may still be on.
func (g Grant) Leaving(cpus cpuset.Set) *Grant {
	g.Beside = cpus.Difference(g.Own())
	g.Held = g.Held.Beside(g.Beside)
	g.Occupied = g.Occupied.Union(g.Beside)
	return &g
}

// Arrived returns the grant without the CPUs from before.
func (g Grant) Arrived(pin workload.Pinning) *Grant {
	g.Beside = cpuset.Set{}
	return g.On(g.Machine, pin)
}

// disjoint counts each CPU for one container only.
func disjoint(parts map[string]Part) map[string]Part {
	var used cpuset.Set
	apart := make(map[string]Part, len(parts))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		one := parts[name]
		if one.CPUs = one.CPUs.Difference(used); !one.CPUs.IsEmpty() {
			apart[name] = one
		}
		used = used.Union(one.CPUs)
	}
	return apart
}

// only returns what a pod asks for, for the containers that have a part. Their
// number of CPUs is not checked any more.
func only(pin workload.Pinning, parts map[string]Part) workload.Pinning {
	all := slices.Concat(pin.Pinned, pin.Others)
	pin.Pinned, pin.Others, pin.Changed = nil, nil, true
	listed := make(map[string]bool, len(all))
	for _, c := range all {
		listed[c.Name] = true
		if _, found := parts[c.Name]; found && pin.Wanted {
			pin.Pinned = append(pin.Pinned, c)
		} else {
			pin.Others = append(pin.Others, c)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if !listed[name] {
			pin.Others = append(pin.Others, workload.PinnedContainer{Name: name})
		}
	}
	return pin
}

// occupied returns the CPUs that a pod takes from all others.
func occupied(m *alloc.Machine, h *placement.Held) cpuset.Set {
	var o placement.Occupancy
	o.Add(m, h)
	return o.Taken.CPUs()
}

// Of returns a decision about a machine as a grant. The hash names the machine.
func Of(d *placement.Decision, a *placement.Ask, m *alloc.Machine, hash string) *Grant {
	p := d.Annotation(a, hash)
	g := &Grant{
		Parts: make(map[string]Part, len(p.Containers)), Burst: a.Pod.StaticBurst, Exclusive: p.Exclusive, NUMAExclusive: p.NUMAExclusive,
		From: ByAgent, Machine: m, Held: d.Held(a), Occupied: d.Answer.Occupied,
	}
	for name, c := range p.Containers {
		g.Parts[name] = PartOf(c)
	}
	return g
}

// List names the containers of a pod and their CPUs, for events.
func (g *Grant) List() string {
	names := slices.Sorted(maps.Keys(g.Parts))
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name + " " + g.Parts[name].CPUs.String()
	}
	return strings.Join(all, ", ")
}

// Says reports whether a placement gives the same CPUs as the grant.
func (g *Grant) Says(p *v1alpha1.Placement) bool {
	if len(p.Containers) != len(g.Parts) {
		return false
	}
	for name, one := range g.Parts {
		if cpus, err := cpuset.Parse(p.Containers[name].CPUs); err != nil || cpus != one.CPUs {
			return false
		}
	}
	return true
}
