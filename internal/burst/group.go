package burst

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/credit"
	"github.com/berth-project/berth/internal/headroom"
	"github.com/berth-project/berth/internal/unit"
)

// Group is the state of the law for one group: what its owner asks for, what was read
// of it, its account, and what was decided last. The caller reads the host, fills in
// the facts, and writes what is decided. Only a group with a workload's own account is
// a Group; one that merely follows is an Own.
type Group struct {
	// Name is the workload's, for messages.
	Name   string
	Policy credit.Policy
	// Spec is the limit that the owner's specification names, 0 for none.
	Spec unit.CPUs
	// Resizing says that the specification of a container names another limit than its
	// group has: the kubelet is about to write it.
	Resizing bool
	// ForeignBurst says that the burst in force is left to another writer.
	ForeignBurst bool
	// CapGroup names the ancestor whose quota leaves Facts.Cap, beside the limits of others below it.
	CapGroup string
	// claim is the last limit that was known.
	claim    unit.CPUs
	rise     rise
	Facts    credit.Facts
	Ledger   credit.Ledger
	Decision credit.Decision
	// payees names what runs beside the group on its account.
	payees string
	resize resize
	guard  headroom.Guard
	peak   peak
	// quiet is the present cadence.
	quiet time.Duration
}

// Reset starts the state of another group with its first facts. Policy and
// specification are the owner's and stay, and so does a resize that is announced.
func (g *Group) Reset(f credit.Facts) {
	g.Facts, g.guard, g.peak, g.claim, g.rise, g.ForeignBurst = f, headroom.Guard{}, peak{}, 0, rise{}, false
}

// Open starts the account from the facts. A group that stands above its limit without
// one starts at 0.
func (g *Group) Open() {
	g.Ledger = credit.Open(g.Policy, g.Facts, g.Raised() || g.Facts.Standing == unit.NoLimit)
}

// Continue goes on with an account that was kept for the group.
func (g *Group) Continue(l credit.Ledger) { g.Ledger = l.Advance(g.Facts, g.Policy) }

// PutBack says that the quota went back to the limit although that was not decided: nobody decides until another agent
// goes on with the account.
func (g *Group) PutBack() { g.Ledger.Raised = false }

// Begin starts the looks at a group that was not looked at: what it used before is no
// use of its credit, and no peak.
func (g *Group) Begin(now time.Duration, usage unit.CPUTime) {
	g.Facts.At, g.Facts.Usage, g.peak = now, usage, peak{}
}

// Look takes what the usage counter shows now, and returns what was used since the look
// before.
func (g *Group) Look(now time.Duration, usage unit.CPUTime) unit.CPUTime {
	used := usage.Since(g.Facts.Usage)
	g.Facts.At, g.Facts.Usage = now, usage
	g.peak.add(now, usage, g.Facts)
	return used
}

// Decide decides by the present facts, after a look that showed this much use.
func (g *Group) Decide(used unit.CPUTime) {
	g.Ledger, g.Decision = credit.Decide(g.Policy, g.Ledger, g.Facts, g.cadence(used))
}

// cadence is how often the group is looked at when nothing is urgent: once a
// period, so that the highest use within a period is seen, within the bounds
// that keep the agent cheap. A group that is raised already, and used less between
// two looks than its limit grants in one period, cannot have been above its limit
// in any: the next look comes twice as late, up to MaxLook. Where credit is so
// short that it must come sooner, Decide says so.
func (g *Group) cadence(used unit.CPUTime) time.Duration {
	least := min(max(g.Facts.Period.Duration(), credit.MinLook), credit.MaxLook)
	if !g.Raised() || used.Seconds() >= g.Facts.LimitQuota.CPUSeconds() {
		g.quiet = least
	} else {
		g.quiet = min(max(2*g.quiet, least), credit.MaxLook)
	}
	return g.quiet
}

// MayBeThrottled says whether the counters are worth reading at once: a group
// can only have been throttled in a period in which it used its whole limit, and
// two looks a period apart see at least half of that between them.
func (g *Group) MayBeThrottled(used unit.CPUTime) bool {
	return g.Raised() && used.Seconds() >= g.Facts.LimitQuota.CPUSeconds()/2
}

// Raised says whether the group stands above its limit, or may: its limit may not be
// known at the moment.
func (g *Group) Raised() bool { return g.Facts.Standing > g.Facts.LimitQuota }

// MustLower says whether the group stands above the ceiling that it has now, or above what the groups above leave.
func (g *Group) MustLower() bool {
	most := max(min(g.Facts.Ceiling, g.Facts.Cap), g.Facts.Limit())
	return most < unit.Rate(g.Facts.Standing, g.Facts.Period)
}

// Claim is the limit of the group, the last that was known where it is not known for a moment: what others may have
// beside it stays the same.
func (g *Group) Claim() unit.CPUs {
	if limit := g.Facts.Limit(); limit > 0 {
		g.claim = limit
	}
	return g.claim
}

// Ceiling is the highest quota of the policy, as a rate.
func (g *Group) Ceiling() unit.CPUs {
	if !g.Policy.Quota {
		return g.Facts.Limit()
	}
	return g.Policy.Ceiling(g.Facts.Limit())
}

// Peak returns the highest use within one period, as a multiple of the limit, in the last
// minute before the last look. Asking changes nothing.
func (g *Group) Peak() float64 { return g.peak.highest(g.Facts.At) }

// KernelBurst is the kernel burst that the group shall have, in microseconds. The
// kernel refuses a quota below the burst: where the specification names a smaller limit
// than the group has, the burst shrinks, so that the owner can write it.
func (g *Group) KernelBurst() unit.Micros {
	if g.resize.noBurst {
		return 0
	}
	quota := g.Facts.LimitQuota
	if g.Spec > 0 {
		quota = min(quota, g.Spec.Quota(g.Facts.Period))
	}
	return g.Policy.KernelBurst(quota)
}

// saves is the burst that the policy gives the group, as a rate; 0 where it gives none.
func (g *Group) saves() unit.CPUs {
	if !g.Policy.Kernel || g.Facts.LimitQuota <= 0 || g.Facts.Period <= 0 || g.ForeignBurst {
		return 0
	}
	return unit.Rate(g.KernelBurst(), g.Facts.Period)
}

// Saves says whether the group saves in the kernel's own burst.
func (g *Group) Saves() bool { return g.saves() > 0 }

// Why explains the decided quota.
func (g *Group) Why() string {
	d := g.Decision
	return fmt.Sprintf("%s: credit %.3f of %.3f CPU-seconds, reserve %.3f, exposure %.3f",
		d.Reason, g.Ledger.Credit, d.Capacity, d.Reserve, d.Exposure)
}

// Limited says why the group cannot get what its policy asks for, "" if it can.
func (g *Group) Limited(p *headroom.Pool) string {
	switch d := g.Decision; d.Reason {
	case credit.CreditTooSmall:
		return fmt.Sprintf("the credit of %.3f CPU-seconds is less than the %.3f that one raise must reserve: "+
			"raise cfsQuotaBurstPeriodSeconds or cfsQuotaBurstPercent", d.Capacity, d.Needed)
	case credit.AncestorCap, credit.AncestorCapped:
		return fmt.Sprintf("group %s above leaves %.3f CPUs", g.CapGroup, g.Facts.Cap)
	case credit.GuardFull, credit.GuardCapped:
		if g.resize.held {
			return "the pod is being resized"
		}
		return p.Shortage(g.Facts.Ceiling)
	case credit.Unenforced:
		return fmt.Sprintf("unsupported: sched_ext %s has all threads, and the kernel holds none of them to cpu.max", g.Facts.SchedExt)
	case credit.NothingToGain:
		return "the limit is all that its CPUs, or the policy's percentage, allow"
	default:
		return ""
	}
}

// PaysFor warns whose use is on the account, "" for the group's own only.
func (g *Group) PaysFor() string {
	if g.payees == "" {
		return ""
	}
	return "in its pod runs without a limit, and is charged to this account: " + g.payees
}

// PaysAlone says that nothing beside the group is on its account any more.
func (g *Group) PaysAlone() { g.payees = "" }
