package agent

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// podGroup is the group of a pod whose quota the kubelet made from the limits of
// the containers in it. It would throttle a container that is raised, so it is
// raised with it: to its own original plus, for every raised container, twice its
// ceiling less its limit. That is a function of what stands and of nothing
// before, so that nothing adds up over restarts.
//
// Once the ceiling would be what the containers can use in the mean; but the
// periods of parent and child start at moments of their own, and a container that
// runs at the end of one of its periods and at the start of the next has two
// quotas in one period of the pod. What bounds the pod in the mean is its
// containers.
//
// Its burst is the sum of theirs: the pod saves what they save, and would throttle what
// they saved otherwise. That is no more than its own quota, so that a container which
// saved a whole quota, and whose period begins in the middle of the pod's, may still be
// throttled once. Before a resize it shrinks with theirs, since the kernel refuses the
// kubelet a quota below the burst.
//
// A container that kubectl debug starts has no limit, although the pod has one. While
// the pod stands raised its quota does not hold such a container to the pod's limit, so
// that its use is charged to the containers that burst (beside.go): they, and the pod
// with them, fall back to their limits when they cannot pay. To give it the pod's limit
// as a quota of its own was the other way. It would let the pod use its limit twice
// over, once by the containers and once beside them, and it would write to a group that
// the runtime and systemd write too. A charge is exact and leaves nothing to put back.
type podGroup struct {
	*follower
	members []*member
	beside  beside
}

// raised says whether a container of the pod stands above its limit.
func (p *podGroup) raised() bool {
	for _, m := range p.members {
		if m.facts.Standing > m.facts.LimitQuota {
			return true
		}
	}
	return false
}

// wanted returns what the pod must have once the quota of changing, if any, is
// this much in its period.
func (p *podGroup) wanted(changing *member, quota unit.Micros) []plan.Setting {
	var extra unit.CPUs
	whose := ""
	for _, m := range p.members {
		standing := m.facts.Standing
		if m == changing {
			standing = quota
		}
		if standing > m.facts.LimitQuota && m.facts.LimitQuota > 0 {
			extra += 2*m.ceiling() - m.facts.Limit()
			whose = m.workload.Name
		}
	}
	switch {
	case whose != "":
	case changing != nil:
		whose = changing.workload.Name
	case len(p.members) > 0:
		whose = p.members[0].workload.Name
	}
	return p.settings(whose, extra, p.saved(),
		fmt.Sprintf("its containers stand above their limits: %.3f CPUs more than its own", extra))
}

// saved is what the containers save together in the kernel's own burst, as a rate.
func (p *podGroup) saved() unit.CPUs {
	var sum unit.CPUs
	for _, m := range p.members {
		sum += m.kernelBurstRate()
	}
	return sum
}

// gatherPods opens the groups of the pods that have active containers, reads what
// stands there, and closes those of pods that have none any more.
func (c *controller) gatherPods(now time.Duration) {
	members, unlimited := map[string][]*member{}, map[string][]*member{}
	for _, m := range c.order {
		in := m.workload.Pod
		m.besides = ""
		switch {
		case m.group == nil || !in.Derived || in.Group == "" || c.pins.lifted[in.Group]:
		case m.state == StateActive:
			members[in.Group] = append(members[in.Group], m)
		case m.state == StateNoLimit:
			unlimited[in.Group] = append(unlimited[in.Group], m)
		}
	}
	for path := range c.pods {
		if members[path] == nil {
			c.dropPod(path)
		}
	}
	for path, all := range members {
		p, first := c.pods[path], false
		if p == nil {
			if p, first = c.openPod(path), true; p == nil {
				continue // without it the pod's quota bounds its containers
			}
		}
		p.members = all
		if p.beside.take(unlimited[path], now, first) {
			for _, m := range all {
				m.due = now // more can be used until the next look than it was decided for
			}
		}
		c.checkPod(p)
		p.charge(now)
		p.expose(c.node.online.Size())
	}
}

// openPod opens the group of a pod. A pod without a quota needs nothing.
func (c *controller) openPod(path string) *podGroup {
	f := c.follow(path)
	if f == nil {
		return nil
	}
	c.pods[path] = &podGroup{follower: f}
	return c.pods[path]
}

func (c *controller) dropPod(path string) {
	c.pods[path].close()
	delete(c.pods, path)
}

// checkPod compares the pod's group with what should stand. What no container asks for
// any more restoreUnwanted puts back.
func (c *controller) checkPod(p *podGroup) {
	if !c.refollow(p.follower) {
		c.dropPod(p.group.Path())
		return
	}
	if p.raised() || p.saved() > 0 {
		c.bring(p.follower, p.wanted(nil, 0))
	}
}

// keeps says whether the containers still ask for what stands in a knob of the pod.
func (p *podGroup) keeps(k cgroup.Knob) bool {
	if k == cgroup.KnobBurst {
		return p.saved() > 0
	}
	return p.raised()
}

// throttles says why the group of m's pod throttles what m saved, "" if it does not.
func (c *controller) throttles(m *member) string {
	p := c.pods[m.workload.Pod.Group]
	if p == nil || !p.burst.foreign || m.kernelBurstRate() == 0 {
		return ""
	}
	return p.leftBurst() + ", and the pod's group throttles what the container saved"
}
