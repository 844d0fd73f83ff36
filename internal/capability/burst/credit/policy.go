package credit

import (
	"math"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/unit"
)

// maxBandwidth is the largest sum of quota and burst that the kernel accepts, in microseconds: its ratios are
// fixed-point numbers of 44 whole bits (kernel/sched/core.c, max_cfs_runtime).
const maxBandwidth unit.Micros = 1<<44 - 1

// Policy is what the owner of a group asked for. The zero value asks for nothing. With a QuotaPercent of 100 or less
// there is nothing to raise.
type Policy workload.Burst

// Unlimited reports whether the policy keeps no account of credit.
func (p Policy) Unlimited() bool { return p.PeriodSeconds < 0 }

// Capacity returns C, the most credit that a group with this limit can save: what it uses above its limit in
// PeriodSeconds at the ceiling. It is 0 for a policy that raises nothing and +Inf without a credit limit.
func (p Policy) Capacity(limit unit.CPUs) unit.CPUSeconds {
	switch {
	case p.Unlimited():
		return unit.CPUSeconds(math.Inf(1))
	case p.QuotaPercent <= 100:
		return 0
	}
	return unit.CPUSeconds(float64(p.PeriodSeconds) * float64(limit) * float64(p.QuotaPercent-100) / 100)
}

// Ceiling returns the highest rate that the policy asks for: the limit times QuotaPercent, and never less than the
// limit. A Demand on the node guard carries this rate.
func (p Policy) Ceiling(limit unit.CPUs) unit.CPUs {
	return limit * unit.CPUs(max(p.QuotaPercent, 100)) / 100
}

// Burst returns the burst to write for a group whose limit is quota microseconds in a period. It returns 0 if
// the policy does not change the kernel's burst.
//
// The kernel refuses a burst above the quota with EINVAL, and also a quota below the burst (tg_set_cfs_bandwidth). The
// burst therefore never exceeds the quota of the limit, which is the lowest quota ever in effect. Berth writes the
// burst once, and no change of the quota conflicts with it.
func (p Policy) Burst(quota unit.Micros) unit.Micros {
	if !p.KernelBurst || quota <= 0 {
		return 0
	}
	percent := unit.Micros(min(max(p.CPUBurstPercent, 0), 100))
	return quota * percent / 100
}
