package place

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
)

// boundary is what offline work has, and what it may have.
type boundary struct {
	cores capability.Offline
	// offline holds the CPUs of offline work, low those of them that it has at the least.
	// Both are empty where it shares the pool: there is none, or no two cores are free.
	offline, low cpuset.Set
	// one is the offline pod that came first.
	one *pod
}

// SetOffline replaces the cores of offline work, and says whether they are others than
// before. Nothing of them is in effect before there is an offline pod of which the runtime has
// made something.
func (n *Node) SetOffline(cores capability.Offline) bool {
	changed := !n.cores.Equal(cores)
	if changed {
		n.cores, n.stale = cores, true
	}
	return changed
}

// HasOffline says whether the runtime has made anything of an offline pod that is not over.
func (n *Node) HasOffline() bool {
	n.settle()
	return n.one != nil
}

// Offline returns the CPUs of offline work, none where it shares the pool.
func (n *Node) Offline() cpuset.Set {
	n.settle()
	return n.offline
}

// present says whether the pod is offline and the runtime has made something of it. Its
// sandbox counts, which is there before any container and between two starts of one.
func (p *pod) present() bool { return p.spec.Offline && len(p.containers) > 0 && !p.over() }

// draw chooses the cores of offline work out of the pool. A pinned pod takes cores of both
// sides at once: offline work then has as many fewer, and others only where it would have
// less than it is guaranteed. able are the CPUs that a container may have at all.
func (b *boundary) draw(able, pool cpuset.Set, all []*pod) {
	if i := slices.IndexFunc(all, (*pod).present); i >= 0 {
		b.one = all[i]
	}
	if b.one == nil {
		return
	}
	var free []cpuset.Set
	held := 0
	for i, core := range b.cores.Cores {
		if core.IsSubsetOf(pool) {
			free = append(free, core)
			if i < b.cores.Size {
				held++
			}
		}
	}
	least := min(b.cores.Low, len(free)-1)
	left := min(max(held, least), len(free)-1)
	tied := bounds(able, pool, all)
	for _, core := range free {
		if left <= 0 || strands(tied, b.offline.Union(core)) {
			continue
		}
		b.offline = b.offline.Union(core)
		if left--; least > 0 {
			b.low, least = b.offline, least-1
		}
	}
}

// bounds are the parts of the pool to which online containers are bound by others, such as
// an administrator, where that is not all of it.
func bounds(able, pool cpuset.Set, all []*pod) []cpuset.Set {
	var some []cpuset.Set
	for _, p := range all {
		if p.spec.Offline {
			continue
		}
		for _, c := range p.containers {
			own := c.Bound.Intersect(able).Intersect(pool)
			if !own.IsEmpty() && own != pool && !slices.Contains(some, own) {
				some = append(some, own)
			}
		}
	}
	return some
}

// strands says that without these CPUs nothing would be left to one of those.
func strands(tied []cpuset.Set, without cpuset.Set) bool {
	return slices.ContainsFunc(tied, func(own cpuset.Set) bool { return own.IsSubsetOf(without) })
}

// side returns the part of the pool that is the pod's.
func (o *outcome) side(p *pod) cpuset.Set {
	switch {
	case o.offline.IsEmpty():
		return o.pool
	case p.spec.Offline:
		return o.offline
	}
	return o.pool.Difference(o.offline)
}

// serves names the pod for which a container has what it has of the pool.
func (o *outcome) serves(p *pod) string {
	switch {
	case p.spec.Offline && !o.offline.IsEmpty():
		return p.key()
	case o.first == nil:
		return o.one.key()
	}
	return o.first.key()
}

// less returns what a container shall have that is to give up CPUs in an answer to the
// runtime. With a boundary it takes none in the same answer, unless it would have none left: the
// runtime writes one group after the other, and another one may be there still (narrow).
func (o *outcome) less(has, shall cpuset.Set) cpuset.Set {
	if left := has.Intersect(shall); !o.offline.IsEmpty() && !left.IsEmpty() {
		return left
	}
	return shall
}
