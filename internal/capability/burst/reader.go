package burst

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst/credit"
)

// reader prints burst's reports for people.
type reader struct{}

// Node implements capability.Reader. It also prints what the last agent knew of the node.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var node NodeStatus
	if err := r.Node.Decode(KeyNode, &node); err != nil {
		return capability.NodeView{}, err
	}
	return capability.NodeView{
		Sections: capability.Sections{KeyNode: node},
		Headline: fmt.Sprintf("node use %.0f %% of %d CPUs", node.UseRatio*100, node.PoolCPUs),
	}, nil
}

// Workload implements capability.Reader.
func (reader) Workload(r capability.Reported) (capability.WorkloadView, error) {
	var s *Status
	var node NodeStatus
	if err := errors.Join(r.Row.Decode(name, &s), r.Node.Decode(KeyNode, &node)); err != nil {
		return capability.WorkloadView{}, err
	}
	view := capability.WorkloadView{Node: capability.Sections{KeyNode: node}}
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
	view.Lines, view.Moves = s.lines(node), s.QuotaMoves
	return view, nil
}

// quota returns the quota in force in CPUs.
func (s *Status) quota() float64 { return float64(s.QuotaMicros) / float64(max(s.PeriodMicros, 1)) }

// decision returns the decision's name and meaning.
func (s *Status) decision() string {
	line := "decision  " + s.Decision
	if meaning := credit.Meaning(s.Decision); meaning != "" { // a newer agent may have another decision
		line += ": " + meaning
	}
	return line
}

// lines returns the explanation, one fact each.
func (s *Status) lines(node NodeStatus) []string {
	lines := []string{
		fmt.Sprintf("limit     %.4g CPUs; the quota stands at %.4g CPUs (%d us in every %d us)",
			s.LimitCPUs, s.quota(), s.QuotaMicros, s.PeriodMicros),
		s.decision(),
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
	if e := s.Estimate; e != nil {
		lines = append(lines, fmt.Sprintf("estimate  by its use in the last minute a limit of %.4g CPUs would do with burst; without, %.4g",
			e.WithBurst, e.Without))
	}
	return append(lines,
		fmt.Sprintf("node      used to %.0f %% of %d CPUs; quotas are shared out from %.0f %% on",
			node.UseRatio*100, node.PoolCPUs, node.Threshold*100),
		fmt.Sprintf("throttled %d of %d periods; groups above it: %d periods", s.Throttled, s.Periods, s.AncestorThrottled),
		"note      threads of real-time classes (FIFO, RR, deadline) run outside the CFS quota; what they use is charged to the credit")
}
