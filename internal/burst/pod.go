package burst

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/credit"
	"github.com/berth-project/berth/internal/unit"
)

// Own is the bandwidth of a group that it has without Berth, where the group limits a
// bursting one besides that one's own: the group of its pod above it, or a copy of its
// limit below it. It would throttle what the bursting group allows, so that it follows.
type Own struct {
	Quota, Burst, Period unit.Micros
}

// Extra is what a group that follows must let through beyond its own, as rates.
type Extra struct {
	// Quota is added to its own quota.
	Quota unit.CPUs
	// Burst is the least burst that it must have.
	Burst unit.CPUs
	// Workload is on whose behalf, and Why says it in words.
	Workload, Why string
}

// With returns the quota and the burst of the group with e. A raised quota is none that the
// kubelet means (credit.Apart): it must not take it for its own at a resize. Its own quota
// bounds the burst, since that is the lowest that stands.
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

// Below returns what a copy of the group's limit must let through, whose own limit is
// this, once the group's quota is this much.
func (g *Group) Below(own unit.CPUs, quota unit.Micros) Extra {
	e := Extra{Burst: g.saves(), Workload: g.Name, Why: "the group above it stands above this limit"}
	if g.Facts.LimitQuota > 0 && quota > g.Facts.LimitQuota {
		e.Quota = unit.Rate(quota, g.Facts.Period) - own
	}
	return e
}

// Pod is the group of a pod whose quota the kubelet made from the limits of the
// containers in it. It would throttle a container that is raised, so it is
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
// kubelet a quota below the burst. Its quota stays while that goes on (Group.Yield).
//
// A container that kubectl debug starts has no limit, although the pod has one. While
// the pod stands raised its quota does not hold such a container to the pod's limit, so
// that its use is charged to the containers that burst: they, and the pod
// with them, fall back to their limits when they cannot pay. To give it the pod's limit
// as a quota of its own was the other way. It would let the pod use its limit twice
// over, once by the containers and once beside them, and it would write to a group that
// the runtime and systemd write too. A charge is exact and leaves nothing to put back.
type Pod struct {
	// Groups are the containers that burst.
	Groups []*Group
	// Limit is the pod's own quota, and Burst the burst that stands there, as rates.
	Limit, Burst unit.CPUs
	// unlimited names the containers without a limit, paid is until when what they used
	// is charged.
	unlimited string
	paid      time.Duration
}

// Raised says whether a container of the pod stands above its limit, or did before its owner
// announced a resize that may not be over.
func (p *Pod) Raised() bool {
	for _, g := range p.Groups {
		if g.Raised() || p.keeps(g) {
			return true
		}
	}
	return false
}

// keeps says whether the pod lets a group through as when it is raised, while its owner resizes it. A container without
// a limit would have that meanwhile.
func (p *Pod) keeps(g *Group) bool { return g.resize.keeps && p.unlimited == "" }

// Saves says whether a container of the pod saves in the kernel's own burst.
func (p *Pod) Saves() bool { return p.saves() > 0 }

// saves is what the containers save together in the kernel's own burst, as a rate.
func (p *Pod) saves() unit.CPUs {
	var sum unit.CPUs
	for _, g := range p.Groups {
		sum += g.saves()
	}
	return sum
}

// Extra returns what the pod must let through once the quota of changing, nil for no
// group, is this much in its period.
func (p *Pod) Extra(changing *Group, quota unit.Micros) Extra {
	e := Extra{Burst: p.saves()}
	for _, g := range p.Groups {
		standing := g.Facts.Standing
		if g == changing {
			standing = quota
		}
		if g.Facts.LimitQuota > 0 && (standing > g.Facts.LimitQuota || p.keeps(g)) {
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

// Unlimited says whether a container of the pod has no limit.
func (p *Pod) Unlimited() bool { return p.unlimited != "" }

// Charge brings what the other containers used since the last charge, those without a limit
// and those that do not burst, to the accounts of those that burst, in proportion to their limits: all but what the pod's own
// limit leaves beyond the limits of its containers. So the pod as a whole keeps to its
// limit over time, as its containers do, and at its own limit it makes no debts.
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

// Expose tells the containers that burst what those without a limit can use, on this
// many CPUs.
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
