package place

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place/sharedpool"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// SetOffline replaces the cores of offline work, and reports whether they changed. They take effect once the runtime
// has created something of an offline pod.
func (n *Node) SetOffline(cores capability.Offline) bool {
	changed := !n.outcome.cores.Equal(cores)
	if changed {
		n.outcome.cores, n.Pods.stale = cores, true
	}
	return changed
}

// HasOffline reports whether the runtime has created anything of an offline pod that is not over.
func (n *Node) HasOffline() bool {
	n.settle()
	return n.outcome.one != nil
}

// Offline returns the CPUs of offline work, or none if it shares the pool.
func (n *Node) Offline() cpuset.Set {
	n.settle()
	return n.outcome.pool.Offline
}

// present reports whether the pod is offline and the runtime has created something of it. The sandbox suffices: it
// exists before any container and between two starts of a container.
func (p *pod) present() bool { return p.spec.Offline && len(p.containers) > 0 && !p.over() }

// divide gives offline work its cores of the pool, once there is an offline pod.
func (o *outcome) divide(all []*pod) {
	if i := slices.IndexFunc(all, (*pod).present); i >= 0 {
		o.one = all[i]
		o.pool.Divide(o.cores, tied(&o.pool, all))
	}
}

// tied returns the parts of the pool to which others than Berth have bound online containers.
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

// serves returns the key of the pod for which a container has its CPUs of the pool.
func (o *outcome) serves(p *pod) string {
	switch {
	case p.spec.Offline && o.pool.Restricts(true):
		return p.key()
	case o.first == nil:
		return o.one.key()
	}
	return o.first.key()
}
