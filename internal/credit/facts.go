package credit

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Facts is what one look at a group and its host found. Everything is read
// before the decision; nothing is remembered from one look to the next except
// the Ledger.
type Facts struct {
	// At is the moment of the look on the monotonic clock of this boot.
	At time.Duration
	// Usage is the cumulative CPU time of the group, read at At.
	Usage unit.CPUTime
	// LimitQuota is the quota of the limit in microseconds in Period: the
	// original integer, so that lowering restores it to the digit. 0 is one that is
	// not known at the moment, less none.
	LimitQuota unit.Micros
	// Period is the period in force, 1 ms to 1 s. LimitQuota, Standing and
	// Burst are at this period; when the kernel has doubled the period, they
	// have doubled with it.
	Period unit.Micros
	// Standing is the quota in force; unit.NoLimit when somebody lifted it.
	Standing unit.Micros
	// Burst is B, the kernel burst in force; 0 where the kernel has none (HasBurst).
	Burst    unit.Micros
	HasBurst bool
	// CPUs is n, the number of CPUs in the group's effective set.
	CPUs int
	// Slice is what a CPU takes from the quota at a time
	// (kernel.sched_cfs_bandwidth_slice_us).
	Slice unit.Micros
	// Tick is the longest time for which a CPU can run past its quota before
	// the kernel notices: one scheduler tick.
	Tick time.Duration
	// Cap is the least that the quotas of the ancestors leave the group beside others, +Inf when
	// none has one, 0 where that is not known. Version 1 refuses a child above an ancestor's,
	// version 2 accepts the child and throttles the ancestor.
	Cap unit.CPUs
	// Ceiling is what the node guard leaves the group, its own limit included;
	// +Inf, or the policy's full ceiling, when the guard leaves everything.
	Ceiling unit.CPUs
	// SchedExt names the BPF scheduler that has all threads of the host, "" for none.
	SchedExt string
	// Beside is what runs without a limit in the group's pod.
	Beside Beside
}

// Beside is what runs in the pod of a group without a limit of its own, and is held by
// the pod's quota only, which rises with the group's. The zero value is nothing.
type Beside struct {
	// Usage is the cumulative CPU time of it that the group's account pays for.
	Usage unit.CPUTime
	// Quota is that of the pod's own limit, and Burst the burst in force there, both in
	// Facts.Period.
	Quota, Burst unit.Micros
	// CPUs is how many it can run on; 0 where nothing is there any more.
	CPUs int
}

// Limit returns L, the limit of the group in CPUs; 0 when it has none or the
// facts are damaged.
func (f Facts) Limit() unit.CPUs {
	if f.LimitQuota <= 0 || f.Period <= 0 {
		return 0
	}
	return unit.CPUs(float64(f.LimitQuota) / float64(f.Period))
}

// Target returns the highest quota that the policy, the ancestors and the node
// guard together allow, in microseconds in a period, never below the limit's
// own, and above that no other limit's (Apart); and which of them bounds it:
// AtCeiling for the policy, AncestorCapped or GuardCapped above the limit,
// AncestorCap or GuardFull when that one leaves nothing above it.
func (f Facts) Target(p Policy) (unit.Micros, Reason) {
	full := f.LimitQuota * unit.Micros(max(p.QuotaPercent, 100)) / 100
	full = f.apart(min(full, maxBandwidth-max(f.Burst, 0)))
	target, reason := full, AtCeiling
	if q := f.apart(quotaUnder(f.Cap, f.Period)); q < target {
		target, reason = q, AncestorCapped
		if q <= f.LimitQuota {
			reason = AncestorCap
		}
	}
	if f.Ceiling < p.Ceiling(f.Limit()) {
		if q := f.apart(quotaUnder(f.Ceiling, f.Period)); q < target {
			target, reason = q, GuardCapped
			if q <= f.LimitQuota {
				reason = GuardFull
			}
		}
	}
	return max(target, f.LimitQuota), reason
}

func (f Facts) apart(quota unit.Micros) unit.Micros { return Apart(f.LimitQuota, quota, f.Period) }

// quotaUnder returns the largest quota that does not exceed the rate c. A rate
// within a millionth of a microsecond below a whole quota counts as that quota:
// it is a whole number that lost its last bit in a division.
func quotaUnder(c unit.CPUs, period unit.Micros) unit.Micros {
	q := math.Floor(float64(c)*float64(period) + 1e-6)
	switch {
	case q >= float64(maxBandwidth):
		return maxBandwidth
	case q > 0:
		return unit.Micros(q)
	}
	return 0 // also for a rate that is not a number
}
