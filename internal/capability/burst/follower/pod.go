package follower

import (
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// Pod is the group of a pod, whose quota the kubelet computed from the limits of the pod's containers. burst.Pod
// computes the values that it must have.
type Pod struct {
	*Follower
	law    burst.Pod
	beside beside
}

// OpenPod opens the group of a pod as Open does.
func OpenPod(host *cgroup.Host, quotas *reconcile.Watch, path string, now time.Duration) *Pod {
	f := Open(host, quotas, path, now)
	if f == nil {
		return nil
	}
	return &Pod{Follower: f}
}

// Gather replaces the containers of the pod: bursting ones and others. cpus is the number of online CPUs. moves restore
// what no container needs any more. more is true if others has a new container in a pod with an unlimited one: until the
// next check, the pod can use more than the last decision assumed.
func (p *Pod) Gather(now time.Duration, bursting []*burst.Group, others []Neighbour, cpus int) (moves []reconcile.Move, more bool) {
	first := len(p.law.Groups) == 0
	p.law.Groups = bursting
	more = p.beside.take(others, first)
	p.law.SetUnlimited(now, p.beside.names())
	if p.law.Raised() || p.law.Saves() {
		moves = p.Wanted(nil)
	}
	p.law.Limit = p.Own()
	if p.Burst != nil {
		p.law.Burst = p.Burst.Stands().Rate()
	}
	for _, move := range moves {
		if move.Quota == p.Burst {
			p.law.Burst = move.Value.Rate()
		}
	}
	p.Charge(now)
	p.law.Expose(cpus)
	return moves, more
}

// Wanted returns the values that the pod must have at the present quotas of its containers. changing is the container
// that has changed, nil for none.
func (p *Pod) Wanted(changing *burst.Group) []reconcile.Move {
	return p.Moves(p.law.Extra(changing))
}

// Charge charges what the containers that do not burst used up to now.
func (p *Pod) Charge(now time.Duration) {
	if p.law.Unlimited() {
		p.law.Charge(now, p.beside.used())
	}
}

// Raised reports whether the containers still need the pod's raised quota.
func (p *Pod) Raised() bool { return p.law.Raised() }

// Saves reports whether the containers still need the pod's burst.
func (p *Pod) Saves() bool { return p.law.Saves() }
