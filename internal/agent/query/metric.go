package query

import (
	"math"

	"github.com/berth-project/berth/internal/agent/history"
)

// kind is how several samples are joined into one.
type kind int

const (
	last kind = iota
	mean
	total // sum of differences: a counter
)

// metric is a measure of the history as a metric.
type metric struct {
	name string
	kind kind
	// ofNode is true for a metric of the node, not of workloads.
	ofNode bool
	// unbounded is true if a negative value means that there is no bound.
	unbounded bool
	// typ and help are reported by /api/v1/metadata.
	typ, help string
	column    func(*history.Workload) history.Column
}

// metrics returns all metrics, sorted by name.
func metrics() []metric {
	return []metric{
		{
			name: "berth_burst_capacity_cpu_seconds", typ: "gauge", unbounded: true, help: "The most credit that may be.",
			column: func(w *history.Workload) history.Column { return w.Capacity },
		},
		{
			name: "berth_burst_credit_cpu_seconds", kind: mean, typ: "gauge", help: "Credit left for running above the limit; negative is a debt.",
			column: func(w *history.Workload) history.Column { return w.Credit },
		},
		{
			name: "berth_cpu_ancestor_throttled_periods_total", kind: total, typ: "counter", help: "CFS periods in which a group above was throttled, summed over the path.",
			column: func(w *history.Workload) history.Column { return w.Above },
		},
		{
			name: "berth_cpu_limit_cpus", typ: "gauge", unbounded: true, help: "The group's own limit in CPUs.",
			column: func(w *history.Workload) history.Column { return w.Limit },
		},
		{
			name: "berth_cpu_periods_total", kind: total, typ: "counter", help: "CFS periods in which the group ran.",
			column: func(w *history.Workload) history.Column { return w.Periods },
		},
		{
			name: "berth_cpu_quota_cpus", typ: "gauge", unbounded: true, help: "The quota in force, in CPUs.",
			column: func(w *history.Workload) history.Column { return w.Now },
		},
		{
			name: "berth_cpu_throttled_periods_total", kind: total, typ: "counter", help: "CFS periods in which the group was throttled.",
			column: func(w *history.Workload) history.Column { return w.Throttled },
		},
		{
			name: "berth_cpu_used_cpus", kind: mean, typ: "gauge", help: "CPUs that the workload used since the sample before.",
			column: func(w *history.Workload) history.Column { return w.Used },
		},
		{
			name: "berth_node_used_cpus", kind: mean, typ: "gauge", ofNode: true, help: "CPUs that all of the node used since the sample before.",
			column: func(w *history.Workload) history.Column { return w.Used },
		},
	}
}

// value converts a number of the history to a value of the metric.
func (m *metric) value(v float64) float64 {
	if m.unbounded && v < 0 {
		return math.Inf(1)
	}
	return v
}
