package credit

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Facts is one sample of a group and its host. Everything is read before the decision; only the Ledger is remembered
// from one sample to the next.
type Facts struct {
	// At is the time of the sample on the monotonic clock of this boot.
	At time.Duration
	// Usage is the cumulative CPU time of the group, read at At.
	Usage unit.CPUTime
	// LimitQuota is the quota of the limit in microseconds in Period: the original integer, so that lowering restores
	// it exactly. 0 means that it is not known at the moment, a negative value that there is no limit.
	LimitQuota unit.Micros
	// Period is the current period, 1 ms to 1 s. LimitQuota, Standing and Burst are in this period; when the kernel
	// has doubled the period, they have doubled with it.
	Period unit.Micros
	// Standing is the current quota, or unit.NoLimit if another program removed it.
	Standing unit.Micros
	// Burst is B, the current kernel burst; 0 if the kernel has none (HasBurst).
	Burst    unit.Micros
	HasBurst bool
	// CPUs is n, the number of CPUs in the group's effective set.
	CPUs int
	// Slice is the part of the quota that a CPU takes at a time (kernel.sched_cfs_bandwidth_slice_us).
	Slice unit.Micros
	// Tick is the longest time for which a CPU can run past its quota before
	// the kernel notices: one scheduler tick.
	Tick time.Duration
	// Cap is the least that the quotas of the ancestors leave the group, after the other groups. It is +Inf if no
	// ancestor has a quota, and 0 if that is not known. Version 1 refuses a child quota above an ancestor's. Version 2
	// accepts the child quota and throttles the ancestor.
	Cap unit.CPUs
	// Ceiling is what the node guard leaves the group, its own limit included. It is +Inf, or the policy's full
	// ceiling, if the guard leaves everything.
	Ceiling unit.CPUs
	// SchedExt is the name of the BPF scheduler that schedules all threads of the host, or "".
	SchedExt string
	// Beside is what runs without a limit in the group's pod.
	Beside Beside
}

// Beside describes the containers in the same pod that have no limit of their own. Only the pod's quota limits them,
// and the pod's quota rises with the bursting group's. The zero value means that there are none.
type Beside struct {
	// Usage is the cumulative CPU time beside the group that the group's account pays for.
	Usage unit.CPUTime
	// Quota is the quota of the pod's own limit, and Burst the pod's current burst, both in Facts.Period.
	Quota, Burst unit.Micros
	// CPUs is the number of CPUs that they can run on; 0 if none of them exists any more.
	CPUs int
}

// Limit returns L, the limit of the group in CPUs; 0 if the group has none or the facts are damaged.
func (f Facts) Limit() unit.CPUs {
	if f.LimitQuota <= 0 || f.Period <= 0 {
		return 0
	}
	return unit.CPUs(float64(f.LimitQuota) / float64(f.Period))
}

// Target returns the highest quota that the policy, the ancestors and the node guard together allow, in microseconds
// in a period. It is never below the limit's quota; above that, it is never the quota of another limit (Apart).
//
// Target also returns what bounds the quota: AtCeiling for the policy, AncestorCapped or GuardCapped above the limit.
// The reason is AncestorCap or GuardFull if the ancestor or the guard leaves nothing above the limit.
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

// quotaUnder returns the largest quota that does not exceed the rate c. A rate within a millionth of a microsecond
// below a whole quota is treated as that quota: it is a whole number that lost its last bit in a division.
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
