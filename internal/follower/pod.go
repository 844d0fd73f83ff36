package follower

import (
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// Pod is the group of a pod whose quota the kubelet made from the limits of
// the containers in it: burst.Pod says what it must have.
type Pod struct {
	*Follower
	law    burst.Pod
	beside beside
}

// OpenPod opens the group of a pod as Open does.
func OpenPod(host *cgroup.Host, writer *reconcile.Quotas, path string, now time.Duration) *Pod {
	f := Open(host, writer, path, now)
	if f == nil {
		return nil
	}
	return &Pod{Follower: f}
}

// Gather takes over the containers of the pod: those that burst, and the others. Cpus is how many are online. More says
// that others came: they can use more until the next look at those that burst than it was decided for.
func (p *Pod) Gather(now time.Duration, bursting []*burst.Group, others []Neighbour, cpus int) (more bool) {
	first := len(p.law.Groups) == 0
	p.law.Groups = bursting
	more = p.beside.take(others, first)
	p.law.SetUnlimited(now, p.beside.names())
	if p.law.Raised() || p.law.Saves() { // what no container asks for is put back
		p.writer.Set(now, p.Wanted(nil, 0)...)
	}
	p.law.Limit = p.Own()
	if p.Burst != nil {
		p.law.Burst = p.Burst.Stands().Rate()
	}
	p.Charge(now)
	p.law.Expose(cpus)
	return more
}

// Wanted returns what the pod must have once the quota of changing, if any, is
// this much in its period.
func (p *Pod) Wanted(changing *burst.Group, quota unit.Micros) []reconcile.Move {
	return p.Moves(p.law.Extra(changing, quota))
}

// Charge charges what the containers beside those that burst used up to now.
func (p *Pod) Charge(now time.Duration) {
	if p.law.Unlimited() {
		p.law.Charge(now, p.beside.used())
	}
}

// Raised says whether the containers still ask for what stands in the pod's quota.
func (p *Pod) Raised() bool { return p.law.Raised() }

// Saves says whether they still ask for what stands in its burst.
func (p *Pod) Saves() bool { return p.law.Saves() }
