package place

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/sharedpool"
)

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
	return n.pool.Offline
}

// present says whether the pod is offline and the runtime has made something of it. Its
// sandbox counts, which is there before any container and between two starts of one.
func (p *pod) present() bool { return p.spec.Offline && len(p.containers) > 0 && !p.over() }

// divide gives offline work its cores of the pool, once there is any.
func (o *outcome) divide(all []*pod) {
	if i := slices.IndexFunc(all, (*pod).present); i >= 0 {
		o.one = all[i]
		o.pool.Divide(o.cores, tied(&o.pool, all))
	}
}

// tied are the parts of the pool to which online containers are bound by others.
func tied(pool *sharedpool.Pool, all []*pod) []cpuset.Set {
	var some []cpuset.Set
	for _, p := range all {
		if p.spec.Offline {
			continue
		}
		for _, c := range p.containers {
			if own, is := pool.Tied(c.Bound); is && !slices.Contains(some, own) {
				some = append(some, own)
			}
		}
	}
	return some
}

// serves names the pod for which a container has what it has of the pool.
func (o *outcome) serves(p *pod) string {
	switch {
	case p.spec.Offline && o.pool.Restricts(true):
		return p.key()
	case o.first == nil:
		return o.one.key()
	}
	return o.first.key()
}
