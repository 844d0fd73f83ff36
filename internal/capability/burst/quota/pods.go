package quota

import (
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/unit"
)

// gatherPods opens the groups of the pods with active containers, reads their values, and closes the groups of other
// pods.
func (q *Groups) gatherPods(now time.Duration) {
	limited, others := q.set.byPod()
	for path := range q.set.pods {
		if limited[path] == nil {
			q.set.dropPod(path)
		}
	}
	for path, all := range limited {
		q.gatherPod(path, all, others[path], now)
	}
}

// gatherPod does the same for one pod, whose quota would otherwise limit its containers.
func (q *Groups) gatherPod(path string, limited []*Group, others []follower.Neighbour, now time.Duration) {
	p, known := q.set.pods[path]
	switch {
	case !known:
		if p = follower.OpenPod(q.opts.Host, q.quotas, path, now); p == nil {
			return // it has no quota
		}
		q.set.pods[path] = p
	case !p.CanFollow(now):
		q.set.dropPod(path)
		return
	}
	bursting := make([]*burst.Group, len(limited))
	for i, m := range limited {
		bursting[i] = &m.law
	}
	moves, more := p.Gather(now, bursting, others, q.pool.Online.Size())
	q.moves = append(q.moves, moves...)
	if more {
		for _, m := range limited {
			m.due = now
		}
	}
}

// byPod returns the containers that burst, and the others, by the group of their pod.
func (s *groupSet) byPod() (limited map[string][]*Group, others map[string][]follower.Neighbour) {
	limited, others = map[string][]*Group{}, map[string][]follower.Neighbour{}
	for _, m := range s.order {
		in := m.workload.Pod
		m.law.PaysAlone()
		switch {
		case m.Group == nil || !in.Derived || in.Group == "" || s.unlimited[in.Group]:
		case m.state == burst.StateActive:
			limited[in.Group] = append(limited[in.Group], m)
		default:
			others[in.Group] = append(others[in.Group], m)
		}
	}
	return limited, others
}

func (s *groupSet) dropPod(path string) {
	s.pods[path].Close()
	delete(s.pods, path)
}

// Name implements follower.Neighbour.
func (m *Group) Name() string { return m.workload.Name }

// Unlimited implements follower.Neighbour.
func (m *Group) Unlimited() bool { return m.state == burst.StateNoLimit }

// Usage implements follower.Neighbour.
func (m *Group) Usage() (unit.CPUTime, error) {
	if m.Group == nil {
		return 0, roster.ErrEnded
	}
	return m.Group.Usage()
}
