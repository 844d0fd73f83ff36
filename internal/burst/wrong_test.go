package burst_test

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/unit"
)

// variant is the law written down a second time, plainly and slowly, with parts
// that can be left out. The model must catch each part that is missing.
type variant struct {
	cutAfter  bool // the credit is cut to its capacity after the use went out
	lookOnly  bool // the exposure ends exactly when the look is due
	noReserve bool // nothing is kept back for the write that lowers
	clamped   bool // a debt is forgotten, and any credit is enough to stand
}

func (v variant) credit(p burst.Policy, l burst.Ledger, f burst.Facts) float64 {
	c, limit := float64(p.Capacity(f.Limit())), float64(f.Limit())
	in := limit * (f.At - l.At).Seconds()
	out := float64(f.Usage-l.Usage) / 1e9
	credit := min(c, float64(l.Credit)+in-out)
	if !v.cutAfter {
		surge := min(out, c)
		if f.Standing == f.LimitQuota {
			surge = min(surge, v.reserve(f))
		}
		credit = min(credit, c-surge)
	}
	if v.clamped {
		credit = max(credit, 0)
	}
	return credit
}

func (v variant) spill(f burst.Facts) float64 {
	return float64(f.CPUs) * (f.Slice.Seconds() + f.Tick.Seconds())
}

func (v variant) reserve(f burst.Facts) float64 {
	return 2*f.LimitQuota.Seconds() + f.Burst.Seconds() + v.spill(f)
}

// exposure is E(Q, D).
func (v variant) exposure(f burst.Facts, quota unit.Micros, d time.Duration) float64 {
	n, q, p := float64(f.CPUs), quota.Seconds(), f.Period.Seconds()
	if v.lookOnly {
		return min(n*d.Seconds(), q*(2+math.Floor(d.Seconds()/p))+f.Burst.Seconds()) + v.spill(f)
	}
	if q/p >= n {
		return n*d.Seconds() + v.spill(f)
	}
	return q*(2+d.Seconds()/p) + f.Burst.Seconds() + v.spill(f)
}

func (v variant) decide(p burst.Policy, l burst.Ledger, f burst.Facts, cadence time.Duration) (burst.Ledger, burst.Decision) {
	credit := v.credit(p, l, f)
	l.Credit, l.At, l.Usage = unit.CPUSeconds(credit), f.At, f.Usage
	target, _ := f.Target(p)
	d := burst.Decision{Quota: f.LimitQuota, Next: cadence, Reason: burst.NoCredit}
	c, limit, r := float64(p.Capacity(f.Limit())), float64(f.Limit()), v.reserve(f)
	if v.noReserve {
		r = 0
	}
	tenth := c / 10
	pays := func(look time.Duration, more float64) bool {
		if v.clamped {
			return credit > 0
		}
		return credit+limit*look.Seconds() >= v.exposure(f, target, look)+r+more
	}
	possible := v.exposure(f, target, burst.MinLook)+r+tenth-limit*burst.MinLook.Seconds() <= c
	if target > f.LimitQuota && possible && limit < float64(f.CPUs) {
		more := 0.0
		if l.Lowered {
			more = tenth
		}
		if pays(burst.MinLook, more) {
			d.Quota, d.Reason = target, burst.AtCeiling
			for d.Next > burst.MinLook && !pays(d.Next, 0) {
				d.Next -= time.Millisecond
			}
			d.Next = max(d.Next, burst.MinLook)
		}
		l.Lowered = d.Reason == burst.NoCredit
	}
	d.Needed = unit.CPUSeconds(v.exposure(f, target, burst.MinLook) + r - limit*burst.MinLook.Seconds())
	d.Write = d.Quota != f.Standing
	return l, d
}
