package agent

import (
	"fmt"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
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
// containers: none of them is without a limit, or the pod had none.
type podGroup struct {
	group *cgroup.Group
	id    plan.Identity
	// limit is the group's own cpu.max, standing the one last seen or written.
	limit, standing cgroup.Value
	members         []*member
}

func (p *podGroup) target() plan.Target {
	return cgroupfile.Target(p.group.Path(), cgroup.KnobMax)
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
func (p *podGroup) wanted(changing *member, quota unit.Micros) plan.Setting {
	var extra unit.CPUs
	var whose string
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
	s := plan.Setting{Target: p.target(), ID: p.id, Owner: plan.OwnerBurst, Workload: whose, Value: plan.Value(p.limit)}
	if own, period, err := p.limit.Pair(); err == nil && extra > 0 {
		s.Value = plan.Value(cgroup.MaxValue(own+extra.Quota(period), period))
		s.Why = fmt.Sprintf("its containers stand above their limits: %.3f CPUs more than its own", extra)
	}
	if whose == "" && changing != nil {
		s.Workload = changing.workload.Name
	}
	return s
}

// gatherPods opens the groups of the pods that have active containers, reads what
// stands there, and closes those of pods that have none any more.
func (c *controller) gatherPods() {
	members := map[string][]*member{}
	for _, m := range c.order {
		if in := m.workload.Pod; m.group != nil && m.state == StateActive && in.Derived && in.Group != "" && !c.pins.lifted[in.Group] {
			members[in.Group] = append(members[in.Group], m)
		}
	}
	for path := range c.pods {
		if members[path] == nil {
			c.dropPod(path)
		}
	}
	for path, all := range members {
		p := c.pods[path]
		if p == nil {
			if p = c.openPod(path); p == nil {
				continue // without it the pod's quota bounds its containers
			}
		}
		p.members = all
		c.checkPod(p)
	}
}

// openPod opens the group of a pod. A pod without a quota needs nothing.
func (c *controller) openPod(path string) *podGroup {
	group, err := c.host.Group(path)
	if err != nil {
		return nil // removed meanwhile
	}
	id, err := group.ID(cgroup.CPU)
	bandwidth, berr := group.Bandwidth()
	if err != nil || berr != nil || bandwidth.Quota < 0 {
		_ = group.Close() // read only: nothing can be lost
		return nil
	}
	p := &podGroup{group: group, id: cgroupfile.Identity(id), limit: bandwidth.Max(), standing: bandwidth.Max()}
	if e, ok := c.journal.Entry(p.target()); ok && e.ID == p.id {
		if e.Owner != plan.OwnerBurst {
			_ = group.Close() // what stands there is for its owner to judge, until he lets go
			return nil
		}
		p.limit = cgroup.Value(e.Original)
	}
	c.pods[path] = p
	return p
}

func (c *controller) dropPod(path string) {
	_ = c.pods[path].group.Close() // read only: nothing can be lost
	delete(c.pods, path)
}

// checkPod compares the pod's quota with what should stand. The kubelet writes it
// when the pod is resized: a value that is neither Berth's nor the original is the
// new original.
func (c *controller) checkPod(p *podGroup) {
	bandwidth, err := p.group.Bandwidth()
	if err != nil || bandwidth.Quota < 0 {
		c.dropPod(p.group.Path())
		return
	}
	have := bandwidth.Max()
	e, journaled := c.journal.Entry(p.target())
	switch {
	case journaled && e.ID == p.id && e.Owner != plan.OwnerBurst:
		c.dropPod(p.group.Path())
		return
	case !journaled || e.ID != p.id:
		p.limit = have
	case !e.IsOurs(c.applier.Kinds(), plan.Value(have)) && !e.IsOriginal(c.applier.Kinds(), plan.Value(have)):
		if err := c.journal.Rebase(p.target(), plan.OwnerBurst, plan.Value(have)); err != nil {
			c.fail("journal", err)
			return
		}
		c.opts.Log.Info("limit of the pod changed", "group", p.group.Path(), "from", string(p.limit), "to", string(have))
		p.limit = have
	}
	p.limit, p.standing = cgroup.ScaleTo(p.limit, bandwidth.Period), have
	if !p.raised() {
		return // restoreUnwanted puts it back
	}
	observed := map[plan.Target]plan.Value{p.target(): plan.Value(have)}
	for _, r := range c.applier.Apply(plan.Diff(c.applier.Kinds(), []plan.Setting{p.wanted(nil, 0)}, observed)) {
		c.appliedPod(p, r)
	}
}

// appliedPod takes over what became of a change of a pod's quota. A refused one is
// tried again at the next second.
func (c *controller) appliedPod(p *podGroup, r apply.Result) {
	if r.Applied() {
		p.standing = cgroup.Value(r.Effective)
	}
	if r.Err != nil {
		c.fail("write for pod "+p.group.Path(), r.Err)
	}
}
