package burst

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// Group is the state of the law for one group: its owner's policy, the facts that were read, its account, and the last
// decision. The caller reads the host, fills in the facts, and writes the decision. Only a group with a workload's own
// account is a Group; a group that merely follows another is an Own.
type Group struct {
	// Name is the workload's name, for messages.
	Name   string
	Policy credit.Policy
	// Spec is the limit in the owner's specification, 0 for none.
	Spec unit.CPUs
	// Resizing is true if the specification of a container has another limit than its group: the kubelet is about to
	// write it.
	Resizing bool
	// ForeignBurst is true if the present burst is left to another writer.
	ForeignBurst bool
	// CapGroup names the ancestor whose quota, after the limits of other groups below it, leaves Facts.Cap.
	CapGroup string
	// claim is the last known limit.
	claim    unit.CPUs
	rise     rise
	Facts    credit.Facts
	Ledger   credit.Ledger
	Decision credit.Decision
	// payees names the containers beside the group that are charged to its account.
	payees string
	resize resize
	guard  headroom.Guard
	peak   peak
	// quiet is the present cadence.
	quiet time.Duration
}

// Reset forgets the state of the earlier cgroup, and starts again with the first facts of a new cgroup. The owner's
// policy and specification stay, and so does an announced resize.
func (g *Group) Reset(f credit.Facts) {
	g.Facts, g.guard, g.peak, g.claim, g.rise, g.ForeignBurst = f, headroom.Guard{}, peak{}, 0, rise{}, false
}

// Open starts the account from the facts. A group that is above its limit without an account starts at 0.
func (g *Group) Open() {
	g.Ledger = credit.Open(g.Policy, g.Facts, g.Raised() || g.Facts.Standing == unit.NoLimit)
}

// Continue resumes an account that was saved for the group.
func (g *Group) Continue(l credit.Ledger) { g.Ledger = l.Advance(g.Facts, g.Policy) }

// PutBack records that the quota went back to the limit without a decision: nobody decides until another agent resumes
// the account.
func (g *Group) PutBack() { g.Ledger.Raised = false }

// Begin starts the sampling of a group. Its use before that neither spends its credit nor counts as a peak.
func (g *Group) Begin(now time.Duration, usage unit.CPUTime) {
	g.Facts.At, g.Facts.Usage, g.peak = now, usage, peak{}
}

// Look records the usage counter, and returns the use since the previous sample.
func (g *Group) Look(now time.Duration, usage unit.CPUTime) unit.CPUTime {
	used := usage.Since(g.Facts.Usage)
	g.Facts.At, g.Facts.Usage = now, usage
	g.peak.add(now, usage, g.Facts)
	return used
}

// Decide decides by the present facts, after a sample with this much use.
func (g *Group) Decide(used unit.CPUTime) {
	g.Ledger, g.Decision = credit.Decide(g.Policy, g.Ledger, g.Facts, g.cadence(used))
}

// cadence returns the time to the next sample if nothing is urgent: one period, so that the highest use within a period
// is seen, within bounds that keep the agent cheap. A raised group that used less between two samples than its limit
// grants in one period was above its limit in no period. The time then doubles, up to MaxLook. If credit is so short
// that the sample must come sooner, Decide says so.
func (g *Group) cadence(used unit.CPUTime) time.Duration {
	least := min(max(g.Facts.Period.Duration(), credit.MinLook), credit.MaxLook)
	if !g.Raised() || used.Seconds() >= g.Facts.LimitQuota.CPUSeconds() {
		g.quiet = least
	} else {
		g.quiet = min(max(2*g.quiet, least), credit.MaxLook)
	}
	return g.quiet
}

// MayBeThrottled reports whether the counters are worth reading at once. A group can only be throttled in a period in
// which it used its whole limit. Two samples a period apart see at least half of that use between them.
func (g *Group) MayBeThrottled(used unit.CPUTime) bool {
	return g.Raised() && used.Seconds() >= g.Facts.LimitQuota.CPUSeconds()/2
}

// Raised reports whether the group is above its limit, or may be: its limit may not be known at the moment.
func (g *Group) Raised() bool { return g.Facts.Standing > g.Facts.LimitQuota }

// MustLower reports whether the group's quota is above its present ceiling, or above what the groups above leave.
func (g *Group) MustLower() bool {
	most := max(min(g.Facts.Ceiling, g.Facts.Cap), g.Facts.Limit())
	return most < unit.Rate(g.Facts.Standing, g.Facts.Period)
}

// Claim returns the limit of the group, or the last known limit while the limit is not known: the share of the other
// groups then stays the same.
func (g *Group) Claim() unit.CPUs {
	if limit := g.Facts.Limit(); limit > 0 {
		g.claim = limit
	}
	return g.claim
}

// Ceiling returns the highest quota of the policy, as a rate.
func (g *Group) Ceiling() unit.CPUs {
	if !g.Policy.QuotaBurst {
		return g.Facts.Limit()
	}
	return g.Policy.Ceiling(g.Facts.Limit())
}

// Peak returns the highest use within one period, as a multiple of the limit, in the last minute before the last
// sample. It does not change the group.
func (g *Group) Peak() float64 { return g.peak.highest(g.Facts.At) }

// KernelBurst returns the desired kernel burst of the group, in microseconds. The kernel refuses a quota below the
// burst. If the specification names a smaller limit than the group has, the burst shrinks, so that the owner can write
// that limit.
func (g *Group) KernelBurst() unit.Micros {
	if g.resize.noBurst {
		return 0
	}
	quota := g.Facts.LimitQuota
	if g.Spec > 0 {
		quota = min(quota, g.Spec.Quota(g.Facts.Period))
	}
	return g.Policy.Burst(quota)
}

// saves returns the burst that the policy gives the group, as a rate; 0 for none.
func (g *Group) saves() unit.CPUs {
	if !g.Policy.KernelBurst || g.Facts.LimitQuota <= 0 || g.Facts.Period <= 0 || g.ForeignBurst {
		return 0
	}
	return unit.Rate(g.KernelBurst(), g.Facts.Period)
}

// Saves reports whether the policy gives the group a kernel burst, in which the kernel saves unused quota.
func (g *Group) Saves() bool { return g.saves() > 0 }

// Why explains the decided quota.
func (g *Group) Why() string {
	d := g.Decision
	return fmt.Sprintf("%s: credit %.3f of %.3f CPU-seconds, reserve %.3f, exposure %.3f",
		d.Reason, g.Ledger.Credit, d.Capacity, d.Reserve, d.Exposure)
}

// Limited returns why the group cannot get what its policy asks for, "" if it can.
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

// PaysFor returns a warning that names the other containers whose use is charged to the account, "" for none.
func (g *Group) PaysFor() string {
	if g.payees == "" {
		return ""
	}
	return "in its pod runs without a limit, and is charged to this account: " + g.payees
}

// PaysAlone records that no other container is charged to the account.
func (g *Group) PaysAlone() { g.payees = "" }
