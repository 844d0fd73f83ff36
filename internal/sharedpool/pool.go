package sharedpool

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/topology"
)

// Pool is the shared pool of a node. The zero value is that of a machine that is not known.
type Pool struct {
	machine *topology.Topology
	// Taken holds the CPUs of pinned pods, empty siblings included, and All what the others
	// have, of both sides.
	Taken, All cpuset.Set
	// Offline holds the CPUs of offline work, Low those of them that it has at the least.
	// Both are empty where it shares the pool: there is none, or no two cores are free.
	Offline, Low cpuset.Set
	// Reserve holds the CPUs that offline work leaves free where it has none of its own.
	Reserve cpuset.Set
}

// Container is what a Pool has to know of one.
type Container struct {
	// Bound holds the CPUs that it would have without Berth, empty where that is not known.
	Bound cpuset.Set
	// System says that its pod runs on the reserved CPUs too, Offline that it is offline work.
	System, Offline bool
}

// Of returns the pool of a machine with one side, where base are the CPUs that run containers.
func Of(machine *topology.Topology, base, taken cpuset.Set) Pool {
	return Pool{machine: machine, Taken: taken, All: base.Difference(taken)}
}

// Divide chooses the cores of offline work out of the pool, or what it leaves of it where it has
// none. tied are the parts of it that are all that some online container may have (Tied).
func (p *Pool) Divide(cores capability.Offline, tied []cpuset.Set) {
	var free []cpuset.Set
	held := 0
	for i, core := range cores.Cores {
		if core.IsSubsetOf(p.All) {
			free = append(free, core)
			if i < cores.Size {
				held++
			}
		}
	}
	least := min(cores.Low, len(free)-1)
	left := min(max(held, least), len(free)-1)
	for _, core := range free {
		if left <= 0 || strands(tied, p.Offline.Union(core)) {
			continue
		}
		p.Offline = p.Offline.Union(core)
		if left--; least > 0 {
			p.Low, least = p.Offline, least-1
		}
	}
	if !p.Divided() && !p.All.IsSubsetOf(cores.Reserve) {
		p.Reserve = cores.Reserve.Intersect(p.All)
	}
}

// Tied returns the part of the pool to which an online container is bound by others, such as an
// administrator, and whether there is one that is not all of it.
func (p *Pool) Tied(bound cpuset.Set) (cpuset.Set, bool) {
	own := bound.Intersect(p.All)
	return own, !own.IsEmpty() && own != p.All
}

// strands says that without these CPUs nothing would be left to one of those.
func strands(tied []cpuset.Set, without cpuset.Set) bool {
	return slices.ContainsFunc(tied, func(own cpuset.Set) bool { return own.IsSubsetOf(without) })
}

// Divided says whether offline work has cores of its own.
func (p *Pool) Divided() bool { return !p.Offline.IsEmpty() }

// Restricts says whether offline work, or the others, may not run everywhere in the pool.
func (p *Pool) Restricts(offline bool) bool { return p.Divided() || offline && !p.Reserve.IsEmpty() }

// Part says what offline work has of the pool, for people.
func (p *Pool) Part() string {
	if p.Divided() {
		return "cores of offline work"
	}
	return "the shared pool but for CPUs " + p.Reserve.String()
}

// Side returns the part of the pool that offline work has, or that the others have.
func (p *Pool) Side(offline bool) cpuset.Set {
	switch {
	case !offline:
		return p.All.Difference(p.Offline)
	case p.Divided():
		return p.Offline
	}
	return p.All.Difference(p.Reserve)
}

// For returns what a container without exclusive CPUs has: no CPU that it would not
// have without Berth, and those that are isolated if it would have them. One that would
// have no CPU of the pool keeps what is no other pod's. The CPUs of cpuset partitions are for
// containers in these alone: on Linux 6.1 to 6.19 a list beside a partition that has one of its
// CPUs ends it (kernel/cgroup/cpuset.c, partcmd_invalidate).
func (p *Pool) For(c Container) cpuset.Set {
	side := p.Side(c.Offline)
	if c.System {
		side = side.Union(p.machine.Reserved.Intersect(p.machine.Online))
	}
	left := c.Bound.Intersect(p.machine.Online).Difference(p.Taken)
	if !left.IsEmpty() && left.IsSubsetOf(p.machine.Partitioned) {
		return left
	}
	left = left.Difference(p.machine.Partitioned)
	switch {
	case left.IsEmpty():
		return side
	case left.Intersects(side) && c.Offline && p.Divided():
		return left.Intersect(side)
	case left.Intersects(side):
		return left.Intersect(side.Union(p.machine.Isolated))
	}
	return left
}

// Less returns what a container shall have that is to give up CPUs in an answer to the
// runtime. With two sides it takes none in the same answer, unless it would have none left: the
// runtime writes one group after the other, and another one may be there still.
func (p *Pool) Less(has, shall cpuset.Set) cpuset.Set {
	if left := has.Intersect(shall); p.Divided() && !left.IsEmpty() {
		return left
	}
	return shall
}
