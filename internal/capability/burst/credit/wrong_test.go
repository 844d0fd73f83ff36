package credit_test

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// variant is a plain, slow second implementation of the law, with parts that can be left out. The model must detect
// each missing part.
type variant struct {
	cutAfter  bool // the credit is cut to its capacity after the use is subtracted
	lookOnly  bool // the exposure ends exactly when the look is due
	noReserve bool // nothing is reserved for the write that lowers
	clamped   bool // a debt is forgotten, and any credit suffices to stay raised
}

func (v variant) credit(p credit.Policy, l credit.Ledger, f credit.Facts) float64 {
	c, limit := float64(p.Capacity(f.Limit())), float64(f.Limit())
	in := limit * (f.At - l.At).Seconds()
	out := float64(f.Usage-l.Usage) / 1e9
	left := min(c, float64(l.Credit)+in-out)
	if !v.cutAfter {
		surge := min(out, c)
		if f.Standing == f.LimitQuota {
			surge = min(surge, v.reserve(f))
		}
		left = min(left, c-surge)
	}
	if v.clamped {
		left = max(left, 0)
	}
	return left
}

func (v variant) spill(f credit.Facts) float64 {
	return float64(f.CPUs) * (f.Slice.Seconds() + f.Tick.Seconds())
}

func (v variant) reserve(f credit.Facts) float64 {
	return 2*f.LimitQuota.Seconds() + f.Burst.Seconds() + v.spill(f)
}

// exposure is E(Q, D).
func (v variant) exposure(f credit.Facts, quota unit.Micros, d time.Duration) float64 {
	n, q, p := float64(f.CPUs), quota.Seconds(), f.Period.Seconds()
	if v.lookOnly {
		return min(n*d.Seconds(), q*(2+math.Floor(d.Seconds()/p))+f.Burst.Seconds()) + v.spill(f)
	}
	if quota+4 >= unit.Micros(f.CPUs)*f.Period { // integers: 0.3/0.1 is less than 3
		return n*d.Seconds() + v.spill(f)
	}
	return q*(2+d.Seconds()/p) + f.Burst.Seconds() + v.spill(f)
}

func (v variant) decide(p credit.Policy, l credit.Ledger, f credit.Facts, cadence time.Duration) (credit.Ledger, credit.Decision) {
	left := v.credit(p, l, f)
	l.Credit, l.At, l.Usage = unit.CPUSeconds(left), f.At, f.Usage
	target, _ := f.Target(p)
	d := credit.Decision{Quota: f.LimitQuota, Next: cadence, Reason: credit.NoCredit}
	c, limit, r := float64(p.Capacity(f.Limit())), float64(f.Limit()), v.reserve(f)
	if v.noReserve {
		r = 0
	}
	tenth := c / 10
	pays := func(look time.Duration, more float64) bool {
		if v.clamped {
			return left > 0
		}
		return left+limit*look.Seconds() >= v.exposure(f, target, look)+r+more
	}
	possible := v.exposure(f, target, credit.MinLook)+r+tenth-limit*credit.MinLook.Seconds() <= c
	if target > f.LimitQuota && possible && limit < float64(f.CPUs) {
		more := 0.0
		if l.Lowered {
			more = tenth
		}
		if pays(credit.MinLook, more) {
			d.Quota, d.Reason = target, credit.AtCeiling
			for d.Next > credit.MinLook && !pays(d.Next, 0) {
				d.Next -= time.Millisecond
			}
			d.Next = max(d.Next, credit.MinLook)
		}
		l.Lowered = d.Reason == credit.NoCredit
	}
	d.Needed = unit.CPUSeconds(v.exposure(f, target, credit.MinLook) + r - limit*credit.MinLook.Seconds())
	d.Write = d.Quota != f.Standing
	return l, d
}
