package grant

import (
	"maps"
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/lending"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Origin is the source of the CPUs of a grant.
type Origin uint8

const (
	// ByScheduler means that the placement names them.
	ByScheduler Origin = iota
	// ByAgent means that the agent chose them.
	ByAgent
	// ByRuntime means that containers were found running on the CPUs.
	ByRuntime
	// ByMove means that the pod was moved to the CPUs.
	ByMove
)

// String returns the origin as messages and events say it.
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
	// Parts are by container name.
	Parts map[string]Part
	// Burst says that the pod keeps its quotas, and may also borrow other CPUs.
	Burst bool
	// Exclusive and NUMAExclusive are as in the placement.
	Exclusive     v1alpha1.CPUExclusivePolicy
	NUMAExclusive bool
	// From is the source of the CPUs.
	From Origin
	// Widened has, by container name, the memory nodes that Parts had before the agent widened them.
	Widened map[string]cpuset.Set
	// Beside are CPUs from before a move, on which containers may still run.
	Beside cpuset.Set

	// Machine is the machine from which Held and Occupied were computed. Held is what placement counts.
	Machine *alloc.Machine
	Held    placement.Held
	// Occupied are the CPUs of all parts, and the siblings that stay empty.
	Occupied cpuset.Set
}

// noHash replaces an unknown hash: the reader of the placement here ignores the hash.
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
			mems = m.Topology().MemoryNodes()
		}
		p.Containers[name] = v1alpha1.ContainerPlacement{
			CPUs: one.CPUs.String(), Mems: mems.String(), Policy: policy, Domain: domain, First: one.First.String(),
		}
	}
	return p
}

// On returns the grant as it is on a machine. The parts keep their size, whatever the limits say.
func (g Grant) On(m *alloc.Machine, pin workload.Pinning) *Grant {
	g.Machine, g.Burst = m, pin.StaticBurst
	counted := g
	if !pin.Wanted || !pin.PerPod {
		// Init containers of a pod that is gone share CPUs with others of the pod.
		pin.PerPod, counted.Parts = false, disjoint(g.Parts)
	}
	g.Held = placement.HeldAs(m, only(pin, counted.Parts), counted.Placement(m, noHash))
	g.Occupied = g.Held.Occupied(m)
	return g.Leaving(g.Beside)
}

// Own returns the CPUs of all containers, without the CPUs that they leave.
func (g *Grant) Own() cpuset.Set {
	var all Total
	for _, one := range g.Parts {
		all.Add(one)
	}
	return all.Part().CPUs
}

// Bare reports whether the NUMA nodes of some part are unknown.
func (g *Grant) Bare() bool {
	for _, one := range g.Parts {
		if one.Bare() {
			return true
		}
	}
	return false
}

// Leaving returns the grant with additional CPUs that the pod may still be on.
func (g Grant) Leaving(cpus cpuset.Set) *Grant {
	g.Beside = cpus.Difference(g.Own())
	g.Held = g.Held.Beside(g.Beside)
	g.Occupied = g.Occupied.Union(g.Beside)
	return &g
}

// Reaching returns the grant with more memory nodes for the parts within these CPUs, if they lack some together.
func (g Grant) Reaching(cpus, mems cpuset.Set) (wider Grant, lacked bool) {
	within := map[string]Part{}
	var sum Total
	for name, one := range g.Parts {
		if one.CPUs.IsSubsetOf(cpus) {
			within[name] = one
			sum.Add(one)
		}
	}
	if all := sum.Part(); all.Bare() || mems.IsSubsetOf(all.Mems) {
		return g, false
	}
	g.Parts = maps.Clone(g.Parts)
	was := make(map[string]cpuset.Set, len(within))
	for name, one := range within {
		was[name] = one.Mems
		one.Mems = one.Mems.Union(mems)
		g.Parts[name] = one
	}
	maps.Copy(was, g.Widened)
	g.Widened = was
	return g, true
}

// Arrived returns the grant without the CPUs from before the move.
func (g Grant) Arrived(pin workload.Pinning) *Grant {
	g.Beside = cpuset.Set{}
	return g.On(g.Machine, pin)
}

// disjoint assigns each CPU to one container only.
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

// only returns pin for the containers that have a part. Their number of CPUs is no longer checked.
func only(pin workload.Pinning, parts map[string]Part) workload.Pinning {
	all := slices.Concat(pin.Pinned, pin.Others)
	pin.Pinned, pin.Others, pin.Change.Changed = nil, nil, true
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

// Of converts a decision for machine m to a grant. The hash identifies the machine.
func Of(d *placement.Decision, a *placement.Ask, m *alloc.Machine, hash string) *Grant {
	p := d.Annotation(a, hash)
	g := &Grant{
		Parts: make(map[string]Part, len(p.Containers)), Burst: a.Pod.StaticBurst, Exclusive: p.Exclusive, NUMAExclusive: p.NUMAExclusive,
		From: ByAgent, Machine: m, Held: d.Held(a), Occupied: d.Answer.Occupied,
	}
	for name, c := range p.Containers {
		g.Parts[name] = Part(placement.PartOf(c))
	}
	return g
}

// List returns the containers of a pod and their CPUs as text for events.
func (g *Grant) List() string {
	names := slices.Sorted(maps.Keys(g.Parts))
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = name + " " + g.Parts[name].CPUs.String()
	}
	return strings.Join(all, ", ")
}

// Says reports whether an annotation can be read and gives the same CPUs as the grant.
func (g *Grant) Says(annotation string) bool {
	p, problems := v1alpha1.DecodePlacement(annotation)
	if len(problems) > 0 || len(p.Containers) != len(g.Parts) {
		return false
	}
	for name, one := range g.Parts {
		if placement.PartOf(p.Containers[name]).CPUs != one.CPUs {
			return false
		}
	}
	return true
}
