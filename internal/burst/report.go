package burst

import (
	"math"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/headroom"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// KeyNode is the key of the NodeStatus in the checkpoint and in the JSON of status, name
// that of a workload's Status.
const (
	KeyNode = "node"
	name    = "burst"
)

// Info is what is known of burst without an agent.
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

// Status is what burst reports of one group. CPUs are CPU-seconds per
// second; times in the names' units.
type Status struct {
	LimitCPUs    unit.CPUs   `json:"limitCPUs"`
	QuotaMicros  unit.Micros `json:"quotaMicros"`
	PeriodMicros unit.Micros `json:"periodMicros"`
	KernelBurst  unit.Micros `json:"kernelBurstMicros"`
	// KernelSupport says whether this kernel has a burst of its own: supported or
	// unsupported.
	KernelSupport   string          `json:"kernelBurstSupport"`
	CeilingCPUs     unit.CPUs       `json:"ceilingCPUs"`
	CreditSeconds   unit.CPUSeconds `json:"creditCPUSeconds"`
	CapacitySeconds unit.CPUSeconds `json:"capacityCPUSeconds"`
	ReserveSeconds  unit.CPUSeconds `json:"reserveCPUSeconds"`
	ExposureSeconds unit.CPUSeconds `json:"exposureCPUSeconds"`
	Decision        string          `json:"decision"`
	// Limited names why the quota cannot rise to the policy's ceiling, if so.
	Limited string `json:"limited,omitempty"`
	// CapGroup is the ancestor with the smallest quota on the path, if one binds.
	CapGroup string `json:"capGroup,omitempty"`
	// Throttled and Periods are the group's own; AncestorThrottled is summed over
	// the path above, since an ancestor's quota throttles the group as well.
	Periods           uint64 `json:"periods"`
	Throttled         uint64 `json:"throttledPeriods"`
	AncestorThrottled uint64 `json:"ancestorThrottledPeriods"`
	Writes            uint64 `json:"writes"`
	// Refused counts the writes that were refused or did not take effect.
	Refused uint64 `json:"-"`
}

// NodeStatus is what burst reports of the node: the state of the node guard.
type NodeStatus struct {
	// UseRatio is the 10 s mean of the CPU used by everything neither offline nor
	// pinned, over the CPUs of the shared pool; 0..1.
	UseRatio  float64 `json:"useRatio"`
	Threshold float64 `json:"threshold"`
	PoolCPUs  int     `json:"poolCPUs"`
	// LatenessSeconds is the largest lateness of a look since the agent started.
	LatenessSeconds float64 `json:"latenessSeconds"`
}

// Status is what the law reports of the group. What is counted of it the caller adds.
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
		CapGroup:        g.CapGroup,
	}
}

// NodeStatusOf is what the node guard reports.
func NodeStatusOf(p *headroom.Pool) NodeStatus {
	s := NodeStatus{Threshold: p.Threshold, PoolCPUs: p.CPUs}
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
