package burst

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// Own is the original bandwidth of a group that also limits a bursting group: its pod above, or a copy of its limit
// below. The group would throttle what the bursting group allows, and therefore follows it.
type Own struct {
	Quota, Burst, Period unit.Micros
}

// Extra is what a following group must let through beyond its own bandwidth, as rates.
type Extra struct {
	// Quota is added to the group's own quota.
	Quota unit.CPUs
	// Burst is the least burst that the group must have.
	Burst unit.CPUs
	// Workload is the name for which the group follows, and Why explains it.
	Workload, Why string
}

// With returns the quota and the burst of the group with e. A raised quota differs from every quota that the kubelet
// would write (credit.Apart): the kubelet must not mistake it for its own at a resize. The group's own quota bounds the
// burst, since it is the lowest quota that may be in effect.
func (o Own) With(e Extra) (quota, burst unit.Micros) {
	quota, burst = o.Quota, o.Burst
	if e.Quota > 0 {
		quota = credit.Apart(o.Quota, o.Quota+e.Quota.Quota(o.Period), o.Period)
	}
	if e.Burst > 0 {
		burst = max(burst, min(e.Burst.Quota(o.Period), o.Quota))
	}
	return quota, burst
}

// Below returns what a copy of the group's limit must let through. own is the limit of the copy, and quota the group's
// new quota.
func (g *Group) Below(own unit.CPUs, quota unit.Micros) Extra {
	e := Extra{Burst: g.saves(), Workload: g.Name, Why: "the group above it stands above this limit"}
	if g.Facts.LimitQuota > 0 && quota > g.Facts.LimitQuota {
		e.Quota = unit.Rate(quota, g.Facts.Period) - own
	}
	return e
}

// Pod is the group of a pod, whose quota the kubelet computed from the limits of its containers. It would throttle a
// raised container, so Berth raises the pod's quota too. The raised quota is the original quota plus, for every raised
// container, twice the container's ceiling less its limit. This sum depends only on the present state, so nothing adds
// up over restarts.
//
// A single ceiling, not twice the ceiling, would be enough for the containers' mean use. But the periods of parent and
// child start at different moments. A container that runs at the end of one of its periods and at the start of the next
// uses two quotas in one period of the pod. The pod's mean use is bounded by its containers.
//
// The pod's burst is the sum of its containers' bursts: the pod saves what they save, and would otherwise throttle what
// they saved. The burst is at most the pod's own quota. A container that saved a whole quota, and whose period begins
// in the middle of the pod's, may therefore still be throttled once. Before a resize the burst shrinks with the
// containers' bursts, since the kernel refuses the kubelet a quota below the burst. The pod's quota stays in the
// meantime (Group.Yield).
//
// A container that kubectl debug starts has no limit, although the pod has one. While the pod is raised its quota does
// not keep such a container to the pod's limit. Its use is therefore charged to the bursting containers: they, and the
// pod with them, fall back to their limits when they cannot pay. The alternative was to give the container the pod's
// limit as its own quota. The pod could then use its limit twice, and Berth would write to a group that the runtime and
// systemd write too. A charge is exact and leaves nothing to restore.
type Pod struct {
	// Groups are the bursting containers.
	Groups []*Group
	// Limit is the pod's own quota, and Burst the burst in effect, as rates.
	Limit, Burst unit.CPUs
	// unlimited names the containers without a limit. paid is the time up to which their use is charged.
	unlimited string
	paid      time.Duration
}

// Raised reports whether a container of the pod is above its limit, or was before its owner announced a resize that may
// not be over.
func (p *Pod) Raised() bool {
	for _, g := range p.Groups {
		if g.Raised() || p.keeps(g) {
			return true
		}
	}
	return false
}

// keeps reports whether the pod still lets a group through as if raised, while its owner resizes it. It is false while
// a container has no limit: that container would use the difference.
func (p *Pod) keeps(g *Group) bool { return g.resize.keeps && p.unlimited == "" }

// Saves reports whether the policy gives a container of the pod a kernel burst.
func (p *Pod) Saves() bool { return p.saves() > 0 }

// saves returns the sum of the containers' kernel bursts, as a rate.
func (p *Pod) saves() unit.CPUs {
	var sum unit.CPUs
	for _, g := range p.Groups {
		sum += g.saves()
	}
	return sum
}

// Extra returns what the pod must let through at the present quotas of its groups. If no group is above its limit, Extra
// names changing, the group that has changed; changing is nil for no group.
func (p *Pod) Extra(changing *Group) Extra {
	e := Extra{Burst: p.saves()}
	for _, g := range p.Groups {
		if g.Facts.LimitQuota > 0 && (g.Raised() || p.keeps(g)) {
			e.Quota += 2*g.Ceiling() - g.Facts.Limit()
			e.Workload = g.Name
		}
	}
	switch {
	case e.Workload != "":
	case changing != nil:
		e.Workload = changing.Name
	case len(p.Groups) > 0:
		e.Workload = p.Groups[0].Name
	}
	e.Why = fmt.Sprintf("its containers stand above their limits: %.3f CPUs more than its own", e.Quota)
	return e
}

// SetUnlimited replaces the names of the containers without a limit, "" for none.
func (p *Pod) SetUnlimited(now time.Duration, names string) {
	if p.unlimited == "" {
		p.paid = now
	}
	p.unlimited = names
}

// Unlimited reports whether a container of the pod has no limit.
func (p *Pod) Unlimited() bool { return p.unlimited != "" }

// Charge divides the use of the other containers since the last charge among the accounts of the bursting containers,
// in proportion to their limits. The other containers have no limit, or do not burst. Charge first subtracts what the
// pod's own limit leaves beyond the limits of its bursting containers. So the pod as a whole keeps to its limit over
// time, as its containers do, and at its own limit it makes no debts.
func (p *Pod) Charge(now time.Duration, used unit.CPUTime) {
	var limits unit.CPUs
	for _, g := range p.Groups {
		limits += g.Facts.Limit()
	}
	spare := max(p.Limit-limits, 0).Over(max(now-p.paid, 0))
	p.paid = now
	excess := used.Seconds() - spare
	if excess <= 0 || limits <= 0 {
		return
	}
	for _, g := range p.Groups {
		g.Facts.Beside.Usage += (excess * unit.CPUSeconds(g.Facts.Limit()/limits)).Time()
	}
}

// Expose tells the bursting containers what the containers without a limit can use, on this many CPUs.
func (p *Pod) Expose(cpus int) {
	for _, g := range p.Groups {
		g.payees = p.unlimited
		beside := credit.Beside{Usage: g.Facts.Beside.Usage}
		if p.unlimited != "" {
			beside.CPUs = cpus
			beside.Quota = p.Limit.Quota(g.Facts.Period)
			beside.Burst = p.Burst.Quota(g.Facts.Period)
		}
		g.Facts.Beside = beside
	}
}
