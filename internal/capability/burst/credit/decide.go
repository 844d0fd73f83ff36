package credit

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// The bounds of the time between two samples of a group.
const (
	MinLook = 50 * time.Millisecond
	MaxLook = time.Second
)

// Decision is the result of a sample.
type Decision struct {
	// Quota is the quota that the group should have now, in microseconds in Facts.Period.
	Quota unit.Micros
	// Write is true if Quota is not in effect yet and credit pays for its write. Every write refills the group's pool,
	// so restoring a limit that another program lowered also waits for credit.
	Write bool
	// Next is the time until the next sample is due, MinLook to MaxLook. If the quota is above the limit, credit does
	// not cover any delay beyond it.
	Next time.Duration
	// Reason is the reason for the decision.
	Reason Reason
	// Target is the quota that Decide would choose with enough credit.
	Target unit.Micros
	// Capacity is C in CPU-seconds; 0 without a credit limit.
	Capacity unit.CPUSeconds
	// Reserve is R: the credit that is held back, because lowering the quota gives the group up to that much once
	// more.
	Reserve unit.CPUSeconds
	// Exposure is E: what the group can use at Quota until the next sample. If the quota is at the limit, it is what
	// the group can use at Target until MinLook.
	Exposure unit.CPUSeconds
	// Needed is the credit at which the quota may be raised to Target. While the quota is at Target, it is the credit
	// below which the quota is lowered.
	Needed unit.CPUSeconds
}

// Decide updates the account to the sample f and returns the quota to use until the next sample. cadence is the
// interval that the caller prefers. It is limited to MinLook and MaxLook, and shortened if the credit could reach the
// reserve earlier.
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

// below reports whether the current quota is lower than the limit.
func (f Facts) below() bool { return f.Standing >= 0 && f.Standing < f.LimitQuota }

// above reports whether the current quota is higher than the limit.
func (f Facts) above() bool { return f.Standing < 0 || f.Standing > f.LimitQuota }

// refusal returns why the quota is at the limit regardless of credit, or Unset if only credit decides.
func (f Facts) refusal(p Policy) Reason {
	switch limit := f.Limit(); {
	case limit <= 0 || f.CPUs <= 0 || f.Slice < 0 || f.Tick < 0 || f.Burst < 0:
		return Incomplete
	case !p.QuotaBurst:
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

// stand returns the least credit with which a quota that has the exposure x may remain in effect.
func (f Facts) stand(x exposure) unit.CPUSeconds {
	return f.reserve() + x.within(MinLook) - f.Limit().Over(MinLook)
}

// Reach returns the highest rate that a group can reach with this policy, regardless of the node guard. It is the limit
// for a group that is never raised, because of a reason other than credit, or because its full credit does not pay for
// the smallest raise.
func Reach(p Policy, f Facts) unit.CPUs {
	f.Ceiling = unit.CPUs(math.Inf(1))
	limit, capacity := f.Limit(), p.Capacity(f.Limit())
	if f.refusal(p) != Unset || !p.Unlimited() && f.stand(f.exposureAt(f.LimitQuota))+capacity/10 > capacity {
		return limit
	}
	target, _ := f.Target(p)
	return min(unit.Rate(target, f.Period), unit.CPUs(f.CPUs))
}

// weigh chooses between the target and the limit according to the credit.
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
