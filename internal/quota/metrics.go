package quota

import "github.com/berth-project/berth/internal/capability"

// Metrics of burst that are no figure of one group.
const (
	metricUse      = "node_use_ratio"
	metricPool     = "node_pool_cpus"
	metricLateness = "look_lateness_max_seconds"
	metricState    = "workload_state"
)

// burstMetrics are the metrics of burst.
func burstMetrics() []capability.Metric {
	all := []capability.Metric{
		{Name: metricUse, Help: "10 s mean of the shared pool's use by everything that is not offline; 0 to 1."},
		{Name: metricPool, Help: "CPUs of the shared pool."},
		{Name: metricLateness, Help: "Largest lateness of a look since the agent started: S in the bound of the burst law."},
		{Name: metricState, Help: "1 for the state each workload is in.", Labels: []string{"workload", "state"}},
	}
	for _, m := range groupMetrics() {
		all = append(all, m.Metric)
	}
	return all
}

// groupMetric is a metric of a workload whose group is looked at.
type groupMetric struct {
	capability.Metric
	value func(*Group) float64
}

func groupMetrics() []groupMetric {
	of := []string{"workload", "group"}
	metric := func(name, help string, value func(*Group) float64) groupMetric {
		return groupMetric{capability.Metric{Name: name, Help: help, Labels: of}, value}
	}
	counter := func(name, help string, value func(*Group) float64) groupMetric {
		return groupMetric{capability.Metric{Name: name, Help: help, Labels: of, Counter: true}, value}
	}
	return []groupMetric{
		metric("cpu_peak_ratio", "Highest use within one CFS period (at least 50 ms; up to 1 s while below the limit) since the last scrape, as a multiple of the limit.",
			func(m *Group) float64 { return m.law.Peak() }),
		metric("cpu_limit_cpus", "The group's own limit in CPUs.",
			func(m *Group) float64 { return float64(m.law.Facts.Limit()) }),
		metric("cpu_quota_cpus", "The quota in force, in CPUs.",
			func(m *Group) float64 {
				return float64(m.law.Facts.Standing) / float64(max(m.law.Facts.Period, 1))
			}),
		metric("cpu_ceiling_cpus", "What the node guard allows the quota to be, in CPUs.",
			func(m *Group) float64 { return float64(m.law.Facts.Ceiling) }),
		metric("burst_credit_cpu_seconds", "Credit left for running above the limit; negative is a debt.",
			func(m *Group) float64 { return float64(m.law.Ledger.Credit) }),
		counter("cpu_periods_total", "CFS periods in which the group ran.",
			func(m *Group) float64 { return float64(m.throttling.Periods) }),
		counter("cpu_throttled_periods_total", "CFS periods in which the group was throttled.",
			func(m *Group) float64 { return float64(m.throttling.Throttled) }),
		counter("cpu_ancestor_throttled_periods_total", "CFS periods in which a group above was throttled, summed over the path.",
			func(m *Group) float64 { return float64(m.ancestorThrottled) }),
		counter("writes_total", "Writes to the group's files.",
			func(m *Group) float64 { return writesOf(m, true) }),
		counter("write_errors_total", "Writes that were refused or did not take effect.",
			func(m *Group) float64 { return writesOf(m, false) }),
	}
}

// writesOf counts the writes of a workload that were made, or those that were refused.
func writesOf(m *Group, made bool) float64 {
	ok, refused := m.writes()
	if made {
		return float64(ok)
	}
	return float64(refused)
}

// Measure implements capability.Measured. Taking the peaks starts them anew.
func (q *Groups) Measure(add func(capability.Sample)) {
	guard := q.pool.status()
	add(capability.Sample{Metric: metricUse, Value: guard.UseRatio})
	add(capability.Sample{Metric: metricPool, Value: float64(guard.PoolCPUs)})
	add(capability.Sample{Metric: metricLateness, Value: q.worst.Seconds()})
	metrics := groupMetrics()
	for _, m := range q.order {
		add(capability.Sample{Metric: metricState, Value: 1, Labels: []string{m.workload.Name, string(m.state)}})
		if m.state != StateActive || m.group == nil {
			continue
		}
		if err := m.readThrottling(); err != nil {
			continue // the next look says so
		}
		of := []string{m.workload.Name, m.group.Path()}
		for _, g := range metrics {
			add(capability.Sample{Metric: g.Name, Value: g.value(m), Labels: of})
		}
	}
}
