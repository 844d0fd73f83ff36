package credit

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// The bounds of the time between two looks at a group.
const (
	MinLook = 50 * time.Millisecond
	MaxLook = time.Second
)

// Decision is what a look leads to.
type Decision struct {
	// Quota is what should stand now, in microseconds in Facts.Period.
	Quota unit.Micros
	// Write is true when Quota does not stand yet and its write is paid for.
	// Every write refills the group's pool, so that also putting a limit back
	// which somebody else lowered waits for credit.
	Write bool
	// Next is the time until the next look is due, MinLook to MaxLook. At a
	// quota above the limit every moment of delay beyond it is uncovered.
	Next time.Duration
	// Reason says why.
	Reason Reason
	// Target is the quota that would stand if credit were no object.
	Target unit.Micros
	// Capacity is C in CPU-seconds; 0 without a credit limit.
	Capacity unit.CPUSeconds
	// Reserve is R: the credit that is kept back, because lowering the quota
	// hands out up to that much once more.
	Reserve unit.CPUSeconds
	// Exposure is E: what the group can use at Quota until the next look; at
	// Target until MinLook when the quota stands at the limit.
	Exposure unit.CPUSeconds
	// Needed is the credit at which the quota may be raised to Target; while
	// it stands there, the credit below which it is lowered.
	Needed unit.CPUSeconds
}

// Decide brings the account up to the look f and says which quota should stand
// until the next look. cadence is how often the caller would like to look;
// it is kept within MinLook and MaxLook, and shortened when the credit is so
// small that it could run into the reserve before.
func Decide(p Policy, l Ledger, f Facts, cadence time.Duration) (Ledger, Decision) {
	l = l.Advance(f, p)
	d := Decision{
		Quota: f.LimitQuota, Target: f.LimitQuota, Next: min(max(cadence, MinLook), MaxLook),
		Reserve: f.reserve(),
	}
	if !p.Unlimited() {
		d.Capacity = p.Capacity(f.Limit())
	}
	if d.Reason = f.refusal(p); d.Reason == Unset {
		d = l.weigh(p, f, d)
		l.Lowered = (l.Lowered || d.Reason == NoCredit) && !d.Reason.Raised()
	}
	l.Raised = d.Reason.Raised()
	d.Write = d.Quota != f.Standing && (d.Quota > f.LimitQuota || !f.below() || p.Unlimited() ||
		l.Credit >= min(d.Reserve, d.Capacity))
	if f.LimitQuota <= 0 {
		d.Write = false // a group without a limit is never written
	}
	return l, d
}

// below reports whether a quota stands that is lower than the limit.
func (f Facts) below() bool { return f.Standing >= 0 && f.Standing < f.LimitQuota }

// above reports whether a quota stands that is higher than the limit.
func (f Facts) above() bool { return f.Standing < 0 || f.Standing > f.LimitQuota }

// refusal returns why the quota stands at the limit whatever the credit is,
// Unset when only credit decides.
func (f Facts) refusal(p Policy) Reason {
	switch limit := f.Limit(); {
	case limit <= 0 || f.CPUs <= 0 || f.Slice < 0 || f.Tick < 0 || f.Burst < 0:
		return Incomplete
	case !p.Quota:
		return Off
	case f.SchedExt != "":
		return Unenforced
	case p.QuotaPercent <= 100 || limit >= unit.CPUs(f.CPUs):
		return NothingToGain
	}
	if target, reason := f.Target(p); target <= f.LimitQuota {
		return reason
	}
	return Unset
}

// stand returns the credit at which the quota of an exposure may go on standing.
func (f Facts) stand(x exposure) unit.CPUSeconds {
	return f.reserve() + x.within(MinLook) - f.Limit().Over(MinLook)
}

// Reach is the highest rate that a group can come to with this policy, whatever the node leaves it: its limit where it
// is never raised, because something else refuses that or its full credit does not pay for the smallest raise.
func Reach(p Policy, f Facts) unit.CPUs {
	f.Ceiling = unit.CPUs(math.Inf(1))
	limit, capacity := f.Limit(), p.Capacity(f.Limit())
	if f.refusal(p) != Unset || !p.Unlimited() && f.stand(f.exposureAt(f.LimitQuota))+capacity/10 > capacity {
		return limit
	}
	target, _ := f.Target(p)
	return min(unit.Rate(target, f.Period), unit.CPUs(f.CPUs))
}

// weigh decides between the target and the limit by what credit there is.
func (l Ledger) weigh(p Policy, f Facts, d Decision) Decision {
	target, reason := f.Target(p)
	x := f.exposureAt(target)
	d.Target, d.Exposure = target, x.within(MinLook)
	if p.Unlimited() {
		if reason == AtCeiling {
			reason = NoLimitOnCredit
		}
		d.Quota, d.Reason, d.Exposure = target, reason, x.within(d.Next)
		return d
	}
	limit, stand := f.Limit(), f.stand(x)
	raise := stand + d.Capacity/10
	d.Needed = raise
	switch {
	case raise > d.Capacity:
		d.Reason = CreditTooSmall
	case l.Credit < stand:
		d.Reason = NoCredit
	case l.Lowered && l.Credit < raise:
		d.Reason = Recovering
	default:
		d.Quota, d.Reason, d.Needed = target, reason, stand
		d.Next = min(d.Next, x.lasts(l.Credit-d.Reserve, limit))
		d.Exposure = x.within(d.Next)
	}
	return d
}
