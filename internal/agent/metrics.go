package agent

import (
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// newLateness returns the histogram of the lateness of looks.
func newLateness() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name: "berth_look_lateness_seconds", Help: "How much later than due looks came.",
		Buckets: []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5},
	})
}

// counts are what the agent counts of its own work.
type counts struct {
	log                *slog.Logger
	loopErrors, drifts uint64
	worstLateness      time.Duration
	lateness           prometheus.Histogram
}

// late records how much later than planned a look came.
func (n *counts) late(by time.Duration) {
	by = max(by, 0)
	n.worstLateness = max(n.worstLateness, by)
	n.lateness.Observe(by.Seconds())
}

// fail reports a failure of the agent's own work.
func (n *counts) fail(what string, err error) {
	n.loopErrors++
	n.log.Warn("agent: "+what, "error", err)
}

// collector turns the controller's state into metrics at each scrape. Taking
// the peaks starts them anew, so one address serves one scraper.
type collector struct {
	controller *controller
}

// metric describes one metric of a workload.
type metric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*workloadGroup) float64
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("berth_"+name, help, labels, nil)
}

func workloadMetric(name, help string, kind prometheus.ValueType, value func(*workloadGroup) float64) metric {
	return metric{describe(name, help, "workload", "group"), kind, value}
}

// activeMetrics are those of a workload whose group is looked at.
func activeMetrics() []metric {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	return []metric{
		workloadMetric("cpu_peak_ratio", "Highest use within one CFS period (at least 50 ms; up to 1 s while below the limit) since the last scrape, as a multiple of the limit.",
			gauge, func(m *workloadGroup) float64 { return m.law.Peak() }),
		workloadMetric("cpu_limit_cpus", "The group's own limit in CPUs.",
			gauge, func(m *workloadGroup) float64 { return float64(m.law.Facts.Limit()) }),
		workloadMetric("cpu_quota_cpus", "The quota in force, in CPUs.",
			gauge, func(m *workloadGroup) float64 {
				return float64(m.law.Facts.Standing) / float64(max(m.law.Facts.Period, 1))
			}),
		workloadMetric("cpu_ceiling_cpus", "What the node guard allows the quota to be, in CPUs.",
			gauge, func(m *workloadGroup) float64 { return float64(m.law.Facts.Ceiling) }),
		workloadMetric("burst_credit_cpu_seconds", "Credit left for running above the limit; negative is a debt.",
			gauge, func(m *workloadGroup) float64 { return float64(m.law.Ledger.Credit) }),
		workloadMetric("cpu_periods_total", "CFS periods in which the group ran.",
			counter, func(m *workloadGroup) float64 { return float64(m.throttling.Periods) }),
		workloadMetric("cpu_throttled_periods_total", "CFS periods in which the group was throttled.",
			counter, func(m *workloadGroup) float64 { return float64(m.throttling.Throttled) }),
		workloadMetric("cpu_ancestor_throttled_periods_total", "CFS periods in which a group above was throttled, summed over the path.",
			counter, func(m *workloadGroup) float64 { return float64(m.ancestorThrottled) }),
		workloadMetric("writes_total", "Writes to the group's files.",
			counter, func(m *workloadGroup) float64 { return writesOf(m, true) }),
		workloadMetric("write_errors_total", "Writes that were refused or did not take effect.",
			counter, func(m *workloadGroup) float64 { return writesOf(m, false) }),
	}
}

// writesOf counts the writes of a workload that were made, or those that were refused.
func writesOf(m *workloadGroup, made bool) float64 {
	ok, refused := m.writes()
	if made {
		return float64(ok)
	}
	return float64(refused)
}

// nodeMetric is one metric of the node and the agent.
type nodeMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*controller) float64
}

func nodeMetrics() []nodeMetric {
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	return []nodeMetric{
		{
			describe("node_use_ratio", "10 s mean of the shared pool's use by everything that is not offline; 0 to 1."),
			gauge, func(c *controller) float64 { return c.node.status().UseRatio },
		},
		{
			describe("node_pool_cpus", "CPUs of the shared pool."),
			gauge, func(c *controller) float64 { return float64(c.node.pool.CPUs) },
		},
		{
			describe("look_lateness_max_seconds", "Largest lateness of a look since the agent started: S in the bound of the burst law."),
			gauge, func(c *controller) float64 { return c.worstLateness.Seconds() },
		},
		{
			describe("loop_errors_total", "Failures of the agent's own work."),
			counter, func(c *controller) float64 { return float64(c.loopErrors) },
		},
		{
			describe("host_drift_total", "Values that were left to another writer that keeps writing them."),
			counter, func(c *controller) float64 { return float64(c.drifts) },
		},
		{
			describe("manifest_problems", "Documents and policies that do not count as written."),
			gauge, func(c *controller) float64 { return float64(len(c.problems) + len(c.waiting)) },
		},
	}
}

// Describe sends nothing: which workloads there are is known at a scrape only.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of one scrape.
func (k *collector) Collect(out chan<- prometheus.Metric) {
	c := k.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, n := range nodeMetrics() {
		out <- prometheus.MustNewConstMetric(n.desc, n.kind, n.value(c))
	}
	out <- prometheus.MustNewConstMetric(describe("build_info", "1, with the version.", "version"),
		prometheus.GaugeValue, 1, c.opts.Version)
	c.lateness.Collect(out)
	c.collectNRI(out)
	metrics, state := activeMetrics(), describe("workload_state", "1 for the state each workload is in.", "workload", "state")
	for _, m := range c.order {
		out <- prometheus.MustNewConstMetric(state, prometheus.GaugeValue, 1, m.workload.Name, string(m.state))
		if m.state != StateActive || m.group == nil {
			continue
		}
		if err := m.readThrottling(); err != nil {
			continue // the next look says so
		}
		for _, w := range metrics {
			out <- prometheus.MustNewConstMetric(w.desc, w.kind, w.value(m), m.workload.Name, m.group.Path())
		}
	}
}
