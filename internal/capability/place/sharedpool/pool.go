package sharedpool

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Pool is the shared pool of a node. The zero value is the pool of an unknown machine.
type Pool struct {
	machine *topology.Topology
	// Taken has the CPUs of pinned pods, including empty siblings. All has the CPUs of all other containers, on both
	// sides.
	Taken, All cpuset.Set
	// Offline has the CPUs of offline work, and Low the part of them that it has at the least. Both are empty while
	// offline work shares the pool: there is none, or no two cores are free.
	Offline, Low cpuset.Set
	// Reserve has the CPUs that offline work leaves free while it has no cores of its own.
	Reserve cpuset.Set
}

// Container is what a Pool needs to know of a container.
type Container struct {
	// Bound has the CPUs that the container would have without Berth, empty if they are not known.
	Bound cpuset.Set
	// System says that the container's pod also runs on the reserved CPUs, Offline that it is offline work.
	System, Offline bool
}

// Of returns the undivided pool of a machine. base has the CPUs that run containers.
func Of(machine *topology.Topology, base, taken cpuset.Set) Pool {
	return Pool{machine: machine, Taken: taken, All: base.Difference(taken)}
}

// Divide chooses the cores of offline work from the pool, or the reserve if it gets no cores. tied has the parts of the
// pool that are all that some online container may have (Tied).
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

// Tied returns the part of the pool to which another writer, such as an administrator, bound an online container. It
// reports whether that part is neither empty nor the whole pool.
func (p *Pool) Tied(bound cpuset.Set) (cpuset.Set, bool) {
	own := bound.Intersect(p.All)
	return own, !own.IsEmpty() && own != p.All
}

// strands reports whether one of the tied parts would have no CPU left without these CPUs.
func strands(tied []cpuset.Set, without cpuset.Set) bool {
	return slices.ContainsFunc(tied, func(own cpuset.Set) bool { return own.IsSubsetOf(without) })
}

// Divided reports whether offline work has cores of its own.
func (p *Pool) Divided() bool { return !p.Offline.IsEmpty() }

// Restricts reports whether offline work, or other containers, may not run everywhere in the pool.
func (p *Pool) Restricts(offline bool) bool { return p.Divided() || offline && !p.Reserve.IsEmpty() }

// Part describes the part of the pool that offline work has, for people.
func (p *Pool) Part() string {
	if p.Divided() {
		return "cores of offline work"
	}
	return "the shared pool but for CPUs " + p.Reserve.String()
}

// Side returns the part of the pool that offline work has, or that other containers have.
func (p *Pool) Side(offline bool) cpuset.Set {
	switch {
	case !offline:
		return p.All.Difference(p.Offline)
	case p.Divided():
		return p.Offline
	}
	return p.All.Difference(p.Reserve)
}

// For returns the CPUs of a container without exclusive CPUs: no CPU that it would not have without Berth, and also
// isolated CPUs that it would have. A container that would have no CPU of the pool keeps its CPUs that belong to no
// other pod. Only containers inside cpuset partitions get the CPUs of partitions. On Linux 6.1 to 6.19, a list beside a
// partition that has one of the partition's CPUs ends the partition (kernel/cgroup/cpuset.c, partcmd_invalidate).
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

// Less returns the CPUs of a container that must give up CPUs in an answer to the runtime. With two sides it gets no
// new CPU in the same answer, unless it would have none left. The runtime writes one group after the other, so another
// group may still be on a new CPU.
func (p *Pool) Less(has, shall cpuset.Set) cpuset.Set {
	if left := has.Intersect(shall); p.Divided() && !left.IsEmpty() {
		return left
	}
	return shall
}
