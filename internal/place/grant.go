package place

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/workload"
)

// part is what one container has. Empty mems leave its memory alone.
type part struct{ cpus, mems cpuset.Set }

// partOf is what a placement says of a container. The form of both lists was checked
// when it was decoded; one that is missing is empty.
func partOf(c v1alpha1.ContainerPlacement) part {
	cpus, _ := cpuset.Parse(c.CPUs)
	mems, _ := cpuset.Parse(c.Mems)
	return part{cpus: cpus, mems: mems}
}

// bare says that the NUMA nodes of a part are not known.
func (p part) bare() bool { return p.mems.IsEmpty() }

// total is what several parts have together.
type total struct {
	cpus, mems cpuset.Set
	bare       bool // So is one of them.
}

func (s *total) add(p part) {
	s.cpus, s.mems, s.bare = s.cpus.Union(p.cpus), s.mems.Union(p.mems), s.bare || p.bare()
}

// part returns the sum, without NUMA nodes where not all are known.
func (s *total) part() part {
	if s.bare {
		return part{cpus: s.cpus}
	}
	return part{cpus: s.cpus, mems: s.mems}
}

// origin says what chose the CPUs of a grant.
type origin uint8

const (
	// byScheduler chose them in the placement.
	byScheduler origin = iota
	// byAgent chose them here.
	byAgent
	// byRuntime is what containers were found running on.
	byRuntime
)

func (o origin) String() string {
	switch o {
	case byScheduler:
		return "by its placement"
	case byAgent:
		return "chosen by the agent of this node"
	default:
		return "found running on them"
	}
}

// grant is what a pod has exclusively. It does not change.
type grant struct {
	parts map[string]part
	// burst says that the pod keeps its quotas, and may borrow other CPUs besides.
	burst         bool
	exclusive     v1alpha1.CPUExclusivePolicy
	numaExclusive bool
	from          origin

	// The rest follows from the above on one machine.
	machine *alloc.Machine
	held    placement.Held
	// occupied are the CPUs of all parts, and the siblings that stay empty.
	occupied cpuset.Set
}

// noHash stands where no hash is known: the reader of the placement here ignores the
// hash.
const noHash = "0000000000000000"

// placement returns the grant as an annotation.
func (g *grant) placement(m *alloc.Machine, hash string) v1alpha1.Placement {
	p := v1alpha1.Placement{
		V: v1alpha1.PlacementVersion, Topology: hash, Exclusive: g.exclusive, NUMAExclusive: g.numaExclusive,
		Containers: make(map[string]v1alpha1.ContainerPlacement, len(g.parts)),
	}
	if len(hash) != len(noHash) {
		p.Topology = noHash
	}
	policy, domain := v1alpha1.PlacementExclusive, ""
	if g.burst {
		var all total
		for _, one := range g.parts {
			all.add(one)
		}
		policy = v1alpha1.PlacementStaticBurst
		domain, _ = domainOf(m.Topology(), all.cpus)
	}
	for name, one := range g.parts {
		mems := one.mems
		if mems.IsEmpty() {
			mems = memoryNodes(m)
		}
		p.Containers[name] = v1alpha1.ContainerPlacement{CPUs: one.cpus.String(), Mems: mems.String(), Policy: policy, Domain: domain}
	}
	return p
}

// on returns the grant as it is on a machine, with parts that are as many as they
// are, whatever the limits say.
func (g grant) on(m *alloc.Machine, pin workload.Pinning) *grant {
	g.machine, g.burst = m, pin.StaticBurst
	counted := g
	if !pin.Wanted || !pin.PerPod {
		// Init containers of a pod that is gone share CPUs with others of the pod.
		pin.PerPod, counted.parts = false, disjoint(g.parts)
	}
	p := counted.placement(m, noHash)
	g.held = placement.HeldBy(m, only(pin, counted.parts), p.Encode())
	g.occupied = occupied(m, &g.held)
	return &g
}

// disjoint counts each CPU for one container only.
func disjoint(parts map[string]part) map[string]part {
	var used cpuset.Set
	apart := make(map[string]part, len(parts))
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		one := parts[name]
		if one.cpus = one.cpus.Difference(used); !one.cpus.IsEmpty() {
			apart[name] = one
		}
		used = used.Union(one.cpus)
	}
	return apart
}

// only returns what a pod asks for, for the containers that have a part. Their
// number of CPUs is not checked any more.
func only(pin workload.Pinning, parts map[string]part) workload.Pinning {
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

// grantOf returns a decision as a grant.
func grantOf(d *placement.Decision, a *placement.Ask, f *Facts) *grant {
	p := d.Annotation(a, f.Hash)
	g := &grant{
		parts: make(map[string]part, len(p.Containers)), burst: a.Pod.StaticBurst, exclusive: p.Exclusive, numaExclusive: p.NUMAExclusive,
		from: byAgent, machine: f.Machine, held: d.Held(a), occupied: d.Answer.Occupied,
	}
	for name, c := range p.Containers {
		g.parts[name] = partOf(c)
	}
	return g
}

// memoryNodes returns the NUMA nodes that have memory, or all where none is
// known to have any.
func memoryNodes(m *alloc.Machine) cpuset.Set {
	var all, some cpuset.Set
	for i := range m.Topology().Nodes {
		node := &m.Topology().Nodes[i]
		all = all.Add(int(node.ID))
		if node.MemoryBytes > 0 {
			some = some.Add(int(node.ID))
		}
	}
	if some.IsEmpty() {
		return all
	}
	return some
}

// hasCore says whether a whole core is among the CPUs.
func hasCore(m *alloc.Machine, cpus cpuset.Set) bool {
	for i := range m.Topology().Cores {
		if core := m.Topology().Cores[i].CPUs; !core.IsEmpty() && core.IsSubsetOf(cpus) {
			return true
		}
	}
	return false
}

// base returns the CPUs that run containers.
func base(m *alloc.Machine) cpuset.Set {
	t := m.Topology()
	return t.Online.Difference(t.Reserved).Difference(t.Isolated)
}
