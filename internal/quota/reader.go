package quota

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/capability"
)

// burstReader prints for people what burst reported.
type burstReader struct{}

// Node implements capability.Reader. What the last agent knew of the node stays.
func (burstReader) Node(r capability.Reported) (capability.NodeView, error) {
	var guard Guard
	if err := r.Node.Decode(keyGuard, &guard); err != nil {
		return capability.NodeView{}, err
	}
	return capability.NodeView{
		Sections: capability.Sections{keyGuard: guard},
		Headline: fmt.Sprintf("node use %.0f %% of %d CPUs", guard.UseRatio*100, guard.PoolCPUs),
	}, nil
}

// Workload implements capability.Reader.
func (burstReader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	var s *Burst
	var guard Guard
	if err := errors.Join(r.Row.Decode(burstName, &s), r.Node.Decode(keyGuard, &guard)); err != nil {
		return capability.WorkloadView{}, err
	}
	view := capability.WorkloadView{Node: capability.Sections{keyGuard: guard}}
	if s == nil {
		return view, nil
	}
	view.Cells = []string{
		fmt.Sprintf("%.4g CPUs", s.LimitCPUs),
		fmt.Sprintf("%.4g CPUs", s.quota()),
		fmt.Sprintf("%.1f CPU-s", s.CreditSeconds),
		fmt.Sprintf("%d/%d", s.Throttled, s.Periods),
	}
	view.Reason = s.Decision
	view.Lines = s.lines(guard)
	return view, nil
}

// quota is the quota in force in CPUs.
func (s *Burst) quota() float64 { return float64(s.QuotaMicros) / float64(max(s.PeriodMicros, 1)) }

// lines are the explanation, one fact each.
func (s *Burst) lines(guard Guard) []string {
	lines := []string{
		fmt.Sprintf("limit     %.4g CPUs; the quota stands at %.4g CPUs (%d us in every %d us)",
			s.LimitCPUs, s.quota(), s.QuotaMicros, s.PeriodMicros),
		"decision  " + s.Decision,
	}
	if s.CapacitySeconds < 0 {
		lines = append(lines, "credit    without limit (cfsQuotaBurstPeriodSeconds -1)")
	} else {
		lines = append(lines, fmt.Sprintf("credit    %.3f of %.3f CPU-seconds; one raise reserves %.3f and may use %.3f until the next look",
			s.CreditSeconds, s.CapacitySeconds, s.ReserveSeconds, s.ExposureSeconds))
	}
	if s.KernelBurst > 0 {
		lines = append(lines, fmt.Sprintf("kernel    burst of %d us carried over between periods", s.KernelBurst))
	}
	if s.Limited != "" {
		lines = append(lines, "limited   "+s.Limited)
	}
	return append(lines,
		fmt.Sprintf("node      used to %.0f %% of %d CPUs; quotas are shared out from %.0f %% on",
			guard.UseRatio*100, guard.PoolCPUs, guard.Threshold*100),
		fmt.Sprintf("throttled %d of %d periods; groups above it: %d periods", s.Throttled, s.Periods, s.AncestorThrottled),
		"note      threads of real-time classes (FIFO, RR, deadline) run outside the CFS quota; what they use is charged to the credit")
}
