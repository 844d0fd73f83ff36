package credit

import (
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// exposure bounds what a group can use from one sample to the next: an amount at once, and then a rate.
type exposure struct {
	once unit.CPUSeconds
	rate unit.CPUs
}

// spill returns e: what n CPUs can hold from an earlier quota or run past the present one, a slice and a tick each.
func (f Facts) spill() unit.CPUSeconds {
	return unit.CPUSeconds(float64(f.CPUs) * (f.Slice.Seconds() + f.Tick.Seconds()))
}

// reserve returns R: what a group can use beyond its limit after its quota has been lowered to the limit, however long
// the quota stays there.
func (f Facts) reserve() unit.CPUSeconds {
	own := 2*f.LimitQuota.CPUSeconds() + f.Burst.CPUSeconds() + f.spill()
	if f.Beside.CPUs <= 0 {
		return own
	}
	return own + 2*f.Beside.Quota.CPUSeconds() + f.Beside.Burst.CPUSeconds() + f.spillBeside()
}

// spillBeside is e of the pod's group.
func (f Facts) spillBeside() unit.CPUSeconds {
	return unit.CPUSeconds(float64(f.Beside.CPUs) * (f.Slice.Seconds() + f.Tick.Seconds()))
}

// exposureAt returns the exposure of the group while quota is in effect.
func (f Facts) exposureAt(quota unit.Micros) exposure {
	if f.Beside.CPUs > 0 { // the group's quota does not limit the unlimited group
		return exposure{once: f.spill() + f.spillBeside(), rate: unit.CPUs(max(f.CPUs, f.Beside.CPUs))}
	}
	if n := unit.CPUs(f.CPUs); unit.Rate(quota+mostTaken, f.Period) >= n { // all CPUs, except what Apart subtracted
		return exposure{once: f.spill(), rate: n}
	}
	return exposure{once: 2*quota.CPUSeconds() + f.Burst.CPUSeconds() + f.spill(), rate: unit.Rate(quota, f.Period)}
}

// within returns E: the most that the group can use in d.
func (x exposure) within(d time.Duration) unit.CPUSeconds { return x.once + x.rate.Over(d) }

// lasts returns for how long credit pays for the exposure while the limit is credited, at least MinLook.
func (x exposure) lasts(credit unit.CPUSeconds, limit unit.CPUs) time.Duration {
	if x.rate <= limit {
		return MaxLook
	}
	seconds := float64(credit-x.once) / float64(x.rate-limit)
	if seconds >= MaxLook.Seconds() {
		return MaxLook
	}
	return max(time.Duration(seconds*float64(time.Second)), MinLook)
}

// Bound returns by how much the use of a group can exceed its limit over any window, by the usage counter, while its
// samples come at most late, and its threads stay in kernel mode for at most stay. It is +Inf without a credit limit.
// With Beside, it is the bound of a pod that has this one account, and the limit of the group.
func Bound(p Policy, f Facts, late, stay time.Duration) unit.CPUSeconds {
	n := unit.CPUs(f.CPUs)
	rate := min(p.Ceiling(f.Limit()), n)
	if f.Beside.CPUs > 0 { // the group's quota does not limit the unlimited group
		n = max(n, unit.CPUs(f.Beside.CPUs))
		rate = n
	}
	beyond := max(rate-f.Limit(), 0)
	return max(p.Capacity(f.Limit()), f.reserve()) + beyond.Over(late) + n.Over(f.Tick+2*stay)
}
