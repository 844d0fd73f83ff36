package burst

import (
	"math"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/value/unit"
)

// KeyNode is the key of the NodeStatus in the checkpoint and in the JSON of status; name is the key of a workload's
// Status.
const (
	KeyNode = "node"
	name    = "burst"
)

// Info returns the description of burst, without an agent.
func Info() capability.Info {
	return capability.Info{
		Name:    name,
		Owners:  []plan.Owner{plan.OwnerBurst},
		Reverts: true,
		Summary: "quotas above the limit, from credit that was saved",
		Page:    "docs/burst.md",
		Keys:    []string{v1alpha1.AnnotationCPUBurst, v1alpha1.AnnotationCPUBurstAlias},
		Metrics: metrics(),
		Config:  config(),
		Columns: []string{"LIMIT", "QUOTA", "CREDIT", "THROTTLED"},
		Reader:  reader{},
	}
}

// Status is burst's report of one group. CPUs are CPU-seconds per second; times have the unit in their names.
type Status struct {
	LimitCPUs    unit.CPUs   `json:"limitCPUs"`
	QuotaMicros  unit.Micros `json:"quotaMicros"`
	PeriodMicros unit.Micros `json:"periodMicros"`
	KernelBurst  unit.Micros `json:"kernelBurstMicros"`
	// KernelSupport is supported if this kernel has a burst of its own, otherwise unsupported.
	KernelSupport   string          `json:"kernelBurstSupport"`
	CeilingCPUs     unit.CPUs       `json:"ceilingCPUs"`
	CreditSeconds   unit.CPUSeconds `json:"creditCPUSeconds"`
	CapacitySeconds unit.CPUSeconds `json:"capacityCPUSeconds"`
	ReserveSeconds  unit.CPUSeconds `json:"reserveCPUSeconds"`
	ExposureSeconds unit.CPUSeconds `json:"exposureCPUSeconds"`
	Decision        string          `json:"decision"`
	// QuotaMoves is true if the policy moves the quota, and not the kernel's burst alone.
	QuotaMoves bool `json:"quotaMoves,omitempty"`
	// Limited is why the quota cannot rise to the policy's ceiling, "" if it can.
	Limited string `json:"limited,omitempty"`
	// CapGroup is the ancestor that leaves the least after the limits of the other groups below it, "" if no ancestor
	// has a quota.
	CapGroup string `json:"capGroup,omitempty"`
	// Throttled and Periods are the group's own. AncestorThrottled is summed over the path above, since an ancestor's
	// quota throttles the group as well.
	Periods           uint64 `json:"periods"`
	Throttled         uint64 `json:"throttledPeriods"`
	AncestorThrottled uint64 `json:"ancestorThrottledPeriods"`
	Writes            uint64 `json:"writes"`
	// Estimate is the limits that would suffice for the group's use, nil if they are not known.
	Estimate *Estimate `json:"estimate,omitempty"`
	// Refused counts the writes that were refused or did not take effect.
	Refused uint64 `json:"-"`
}

// NodeStatus is burst's report of the node: the state of the node guard.
type NodeStatus struct {
	// UseRatio is the 10 s mean of the CPU use of everything neither offline nor pinned, over the CPUs of the shared
	// pool; 0..1.
	UseRatio  float64 `json:"useRatio"`
	Threshold float64 `json:"threshold"`
	PoolCPUs  int     `json:"poolCPUs"`
	// LatenessSeconds is the largest lateness of a sample since the agent started.
	LatenessSeconds float64 `json:"latenessSeconds"`
}

// Status returns the law's report of the group. The caller adds the counters.
func (g *Group) Status() Status {
	support := "unsupported"
	if g.Facts.HasBurst {
		support = "supported"
	}
	return Status{
		LimitCPUs:       g.Facts.Limit(),
		QuotaMicros:     g.Facts.Standing,
		PeriodMicros:    g.Facts.Period,
		KernelBurst:     g.Facts.Burst,
		KernelSupport:   support,
		CeilingCPUs:     finite(g.Facts.Ceiling),
		CreditSeconds:   g.Ledger.Credit,
		CapacitySeconds: finite(g.Policy.Capacity(g.Facts.Limit())),
		ReserveSeconds:  g.Decision.Reserve,
		ExposureSeconds: g.Decision.Exposure,
		Decision:        g.Decision.Reason.String(),
		QuotaMoves:      g.Policy.QuotaBurst,
		CapGroup:        g.CapGroup,
		Estimate:        g.Estimate(),
	}
}

// Quota returns the status in the form for drawing.
func (s *Status) Quota(workload string) capability.Quota {
	return capability.Quota{
		Workload: workload, Limit: float64(finite(s.LimitCPUs)), Now: float64(finite(unit.Rate(s.QuotaMicros, s.PeriodMicros))),
		Credit: float64(s.CreditSeconds), Capacity: float64(s.CapacitySeconds),
		Periods: s.Periods, Throttled: s.Throttled, Above: s.AncestorThrottled,
	}
}

// Moment returns the group's status for drawing, with its use at the last sample. The caller adds the counters.
func (g *Group) Moment(workload string) capability.Moment {
	f := &g.Facts
	return capability.Moment{
		Quota: capability.Quota{
			Workload: workload, Limit: float64(finite(f.Limit())), Now: float64(finite(unit.Rate(f.Standing, f.Period))),
			Credit: float64(g.Ledger.Credit), Capacity: float64(finite(g.Policy.Capacity(f.Limit()))),
		},
		Used: f.Usage, At: f.At,
	}
}

// NodeStatusOf returns the report of the node guard; latest is the largest lateness of a sample.
func NodeStatusOf(p *headroom.Pool, latest time.Duration) NodeStatus {
	s := NodeStatus{Threshold: p.Threshold, PoolCPUs: p.CPUs, LatenessSeconds: latest.Seconds()}
	if use := p.Use(); !math.IsNaN(use) {
		s.UseRatio = use
	}
	return s
}

// finite replaces an unbounded amount by -1, since JSON has no infinity.
func finite[N ~float64](s N) N {
	if math.IsInf(float64(s), 0) {
		return -1
	}
	return s
}
