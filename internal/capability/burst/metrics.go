package burst

import (
	"slices"

	"github.com/berth-project/berth/internal/capability"
)

// The metrics of burst that do not describe one group.
const (
	metricUse      = "node_use_ratio"
	metricPool     = "node_pool_cpus"
	metricLateness = "look_lateness_max_seconds"
	metricState    = "workload_state"
)

func metrics() []capability.Metric {
	all := []capability.Metric{
		{Name: metricUse, Help: "10 s mean of the shared pool's use by everything that is not offline; 0 to 1."},
		{Name: metricPool, Help: "CPUs of the shared pool."},
		{Name: metricLateness, Help: "Largest lateness of an observation since the agent started: S in the bound of the burst law."},
		{Name: metricState, Help: "1 for the state each workload is in.", Labels: append(capability.WorkloadLabels(), "state")},
	}
	for _, m := range groupMetrics() {
		all = append(all, m.Metric)
	}
	return all
}

// groupMetric is a metric of a workload whose group is sampled.
type groupMetric struct {
	capability.Metric
	value func(*Group, *Status) float64
}

func groupMetrics() []groupMetric {
	of := capability.WorkloadLabels()
	metric := func(name, help string, value func(*Group, *Status) float64) groupMetric {
		return groupMetric{capability.Metric{Name: name, Help: help, Labels: of}, value}
	}
	counter := func(name, help string, value func(*Group, *Status) float64) groupMetric {
		return groupMetric{capability.Metric{Name: name, Help: help, Labels: of, Counter: true}, value}
	}
	return []groupMetric{
		metric("cpu_peak_ratio", "Highest use within one CFS period (at least 50 ms; up to 1 s while below the limit) in the last minute, as a multiple of the limit.",
			func(g *Group, _ *Status) float64 { return g.Peak() }),
		metric("cpu_limit_cpus", "The group's own limit in CPUs.",
			func(g *Group, _ *Status) float64 { return float64(g.Facts.Limit()) }),
		metric("cpu_quota_cpus", "The quota in force, in CPUs.",
			func(g *Group, _ *Status) float64 {
				return float64(g.Facts.Standing) / float64(max(g.Facts.Period, 1))
			}),
		metric("cpu_ceiling_cpus", "The highest quota that the node guard allows, in CPUs.",
			func(g *Group, _ *Status) float64 { return float64(g.Facts.Ceiling) }),
		metric("burst_credit_cpu_seconds", "Credit left for running above the limit; negative is a debt.",
			func(g *Group, _ *Status) float64 { return float64(g.Ledger.Credit) }),
		counter("cpu_periods_total", "CFS periods in which the group ran.",
			func(_ *Group, s *Status) float64 { return float64(s.Periods) }),
		counter("cpu_throttled_periods_total", "CFS periods in which the group was throttled.",
			func(_ *Group, s *Status) float64 { return float64(s.Throttled) }),
		counter("cpu_ancestor_throttled_periods_total", "CFS periods in which a group above was throttled, summed over the path.",
			func(_ *Group, s *Status) float64 { return float64(s.AncestorThrottled) }),
		counter("writes_total", "Writes to the group's files.",
			func(_ *Group, s *Status) float64 { return float64(s.Writes) }),
		counter("write_errors_total", "Writes that the kernel refused or that had no effect.",
			func(_ *Group, s *Status) float64 { return float64(s.Refused) }),
	}
}

// Measure adds the samples of the node.
func (s *NodeStatus) Measure(add func(capability.Sample)) {
	add(capability.Sample{Metric: metricUse, Value: s.UseRatio})
	add(capability.Sample{Metric: metricPool, Value: float64(s.PoolCPUs)})
	add(capability.Sample{Metric: metricLateness, Value: s.LatenessSeconds})
}

// Measure adds the state of a workload and, if its group is sampled, the samples of the group.
func (g *Group) Measure(state State, looked bool, s *Status, add func(capability.Sample)) {
	of := capability.LabelsOf(g.Name)
	add(capability.Sample{Metric: metricState, Value: 1, Labels: append(slices.Clip(of), string(state))})
	if !looked {
		return
	}
	for _, m := range groupMetrics() {
		add(capability.Sample{Metric: m.Name, Value: m.value(g, s), Labels: of})
	}
}
