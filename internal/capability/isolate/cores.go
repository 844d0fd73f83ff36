package isolate

import (
	"cmp"
	"slices"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Core is a movable core.
type Core struct {
	ID   topology.CoreID
	CPUs cpuset.Set
	// Domain is the group of cores that share its L3 cache, Node its NUMA node.
	Domain Domain
	Node   topology.NodeID
	// Whole is true if all cores of the domain are movable.
	Whole bool
}

// Domain names the cores that share an L3 cache, or a NUMA node where the machine shows no L3.
type Domain struct {
	L3   topology.L3ID
	Node topology.NodeID // only for a core without L3
}

func domainOf(c topology.Core) Domain {
	if c.L3 == topology.None {
		return Domain{topology.None, c.Node}
	}
	return Domain{L3: c.L3}
}

// Movable returns the cores of a machine that either side may have. They lie as a whole in the effective set of the
// root cpuset, and no thread of them is taken: reserved, isolated or granted to a pinned container. A core with one
// pinned thread is online, as its other thread is beside that container.
func Movable(t *topology.Topology, effective, taken cpuset.Set) []Core {
	var movable []Core
	broken := map[Domain]bool{}
	for _, c := range t.Cores {
		switch {
		case c.CPUs.IsEmpty():
		case c.CPUs.IsSubsetOf(effective) && !c.CPUs.Intersects(taken):
			movable = append(movable, Core{ID: c.ID, CPUs: c.CPUs, Domain: domainOf(c), Node: c.Node})
		default:
			broken[domainOf(c)] = true
		}
	}
	for i, c := range movable {
		movable[i].Whole = !broken[c.Domain]
	}
	return movable
}

// cpuCount returns how many CPUs the cores have.
func cpuCount(cores []Core) int {
	count := 0
	for _, c := range cores {
		count += c.CPUs.Size()
	}
	return count
}

func cpusOf(cores []Core) cpuset.Set {
	var all cpuset.Set
	for _, c := range cores {
		all = all.Union(c.CPUs)
	}
	return all
}

func has(cores []Core, id topology.CoreID) bool {
	return slices.ContainsFunc(cores, func(c Core) bool { return c.ID == id })
}

// keep returns the held cores that are still movable, in their order, with their present values.
func keep(held, movable []Core) []Core {
	var kept []Core
	for _, h := range held {
		if i := slices.IndexFunc(movable, func(m Core) bool { return m.ID == h.ID }); i >= 0 {
			kept = append(kept, movable[i])
		}
	}
	return kept
}

// lineup is the order of the movable cores. Samples come up to 20 times a second, and nearly all find the cores of the
// sample before: of then sorts nothing. The zero value knows no cores.
type lineup struct{ held, movable, order []Core }

// of returns the held cores that are still movable, and all movable cores in the order in which offline work gets them.
func (l *lineup) of(held, movable []Core) (kept, order []Core) {
	if l.order == nil || !slices.Equal(held, l.held) || !slices.Equal(movable, l.movable) {
		l.held, l.movable = keep(held, movable), slices.Clone(movable)
		l.order = resize(l.held, movable, len(movable))
	}
	return l.held, l.order
}

// resize returns size of the movable cores, or all of them. It shrinks held from its end. It grows held first from the
// domains in held, in their order, then from domains that are free as a whole, then from any domain. It chooses the
// last domain, and the last core within a domain, first. Online work so keeps the first cores, where the kernel's own
// work often is.
func resize(held, movable []Core, size int) []Core {
	if size <= len(held) {
		return slices.Clone(held[:max(size, 0)])
	}
	free := slices.DeleteFunc(slices.Clone(movable), func(c Core) bool { return has(held, c.ID) })
	rank := ranks(held, movable)
	slices.SortFunc(free, func(a, b Core) int {
		return cmp.Or(cmp.Compare(rank[a.Domain], rank[b.Domain]), cmp.Compare(b.ID, a.ID))
	})
	return append(slices.Clone(held), free[:min(size-len(held), len(free))]...)
}

// ranks orders the domains as resize describes.
func ranks(held, movable []Core) map[Domain]int {
	last := slices.SortedFunc(slices.Values(movable), func(a, b Core) int { return cmp.Compare(b.ID, a.ID) })
	partly := slices.DeleteFunc(slices.Clone(last), func(c Core) bool { return c.Whole })
	whole := slices.DeleteFunc(last, func(c Core) bool { return !c.Whole })
	rank := map[Domain]int{}
	for _, c := range slices.Concat(held, whole, partly) {
		if _, known := rank[c.Domain]; !known {
			rank[c.Domain] = len(rank)
		}
	}
	return rank
}
