package quota

import (
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// podGroup is the group of a pod whose quota the kubelet made from the limits of
// the containers in it: burst.Pod says what it must have.
type podGroup struct {
	*follower
	law    burst.Pod
	beside beside
}

// wanted returns what the pod must have once the quota of changing, if any, is
// this much in its period.
func (p *podGroup) wanted(changing *burst.Group, quota unit.Micros) []reconcile.Move {
	return p.moves(p.law.Extra(changing, quota))
}

// charge charges what the containers beside those that burst used up to now.
func (p *podGroup) charge(now time.Duration) {
	if p.law.Unlimited() {
		p.law.Charge(now, p.beside.used())
	}
}

// gatherPods opens the groups of the pods that have active containers, reads what
// stands there, and closes those of pods that have none any more.
func (q *Groups) gatherPods(now time.Duration) {
	limited, others := q.byPod()
	for path := range q.pods {
		if limited[path] == nil {
			q.dropPod(path)
		}
	}
	for path, all := range limited {
		q.gatherPod(path, all, others[path], now)
	}
}

// gatherPod does so for the pod of one group. Without it the pod's quota bounds its
// containers.
func (q *Groups) gatherPod(path string, limited, others []*Group, now time.Duration) {
	p, known := q.pods[path]
	switch {
	case !known:
		f := q.openFollower(path, now)
		if f == nil {
			return // it has no quota
		}
		p = &podGroup{follower: f}
		q.pods[path] = p
	case !q.canFollow(p.follower, now):
		q.dropPod(path)
		return
	}
	p.law.Groups = p.law.Groups[:0]
	for _, m := range limited {
		p.law.Groups = append(p.law.Groups, &m.law)
	}
	if p.beside.take(others, !known) {
		for _, m := range limited {
			m.due = now // more can be used until the next look than it was decided for
		}
	}
	p.law.SetUnlimited(now, p.beside.names())
	if p.law.Raised() || p.law.Saves() { // what no container asks for is put back
		q.writer.Set(now, p.wanted(nil, 0)...)
	}
	p.law.Limit = p.max.Original().Rate()
	if p.burst != nil {
		p.law.Burst = p.burst.Stands().Rate()
	}
	p.charge(now)
	p.law.Expose(q.pool.Online.Size())
}

// byPod returns the containers that burst, and the others, by the group of their pod.
func (q *Groups) byPod() (limited, others map[string][]*Group) {
	limited, others = map[string][]*Group{}, map[string][]*Group{}
	for _, m := range q.order {
		in := m.workload.Pod
		m.law.PaysAlone()
		switch {
		case m.group == nil || !in.Derived || in.Group == "" || q.unlimited[in.Group]:
		case m.state == burst.StateActive:
			limited[in.Group] = append(limited[in.Group], m)
		default:
			others[in.Group] = append(others[in.Group], m)
		}
	}
	return limited, others
}

// keeps says whether the containers still ask for what stands in a knob of the pod.
func (p *podGroup) keeps(k cgroup.Knob) bool { return ofKnob(k, p.law.Raised(), p.law.Saves()) }
