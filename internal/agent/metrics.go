package agent

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/reconcile"
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
	lateness           prometheus.Histogram
}

// fail reports a failure of the agent's own work.
func (n *counts) fail(what string, err error) {
	n.loopErrors++
	n.log.Warn("agent: "+what, "error", err)
}

// drifted reports that another writer has a value now.
func (n *counts) drifted(e reconcile.Event) {
	n.drifts++
	n.log.Warn(e.Reason, "workload", e.Workload, "group", e.Group, "reason", e.Text)
}

// failEach reports what went wrong in a pass beside the groups.
func (n *counts) failEach(errs []error) {
	for _, err := range errs {
		n.fail("CPU sets", err)
	}
}

func describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("berth_"+name, help, labels, nil)
}

// sender sends values to one scrape.
type sender chan<- prometheus.Metric

// count sends a counter, gauge a value that may fall.
func (out sender) count(desc *prometheus.Desc, value float64) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, value)
}

func (out sender) gauge(desc *prometheus.Desc, value float64, labels ...string) {
	out <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, labels...)
}

// collector turns the controller's state into metrics at each scrape. Measuring may
// start a peak anew, so one address serves one scraper.
type collector struct {
	controller *controller
}

// Describe sends nothing: which workloads there are is known at a scrape only.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of one scrape.
func (k *collector) Collect(out chan<- prometheus.Metric) {
	c := k.controller
	c.mu.Lock()
	defer c.mu.Unlock()
	own := sender(out)
	own.count(describe("loop_errors_total", "Failures of the agent's own work."), float64(c.loopErrors))
	own.count(describe("host_drift_total", "Values that were left to another writer that keeps writing them."), float64(c.drifts))
	own.gauge(describe("manifest_problems", "Documents and policies that do not count as written."), float64(len(c.problems)+len(c.waiting)))
	own.gauge(describe("build_info", "1, with the version.", "version"), 1, c.opts.Version)
	c.lateness.Collect(out)
	c.collectNRI(own)
	for _, one := range c.capabilities {
		collect(one, out)
	}
}

// errNoMetric says that a capability gave a sample of a metric that it does not list.
var errNoMetric = errors.New("sample of a metric that its capability does not list")

// collect sends the metrics of one capability.
func collect(one capability.Capability, out chan<- prometheus.Metric) {
	measured, ok := one.(capability.Measured)
	if !ok {
		return
	}
	descs, kinds := map[string]*prometheus.Desc{}, map[string]prometheus.ValueType{}
	for _, m := range one.Describe().Metrics {
		descs[m.Name], kinds[m.Name] = describe(m.Name, m.Help, m.Labels...), prometheus.GaugeValue
		if m.Counter {
			kinds[m.Name] = prometheus.CounterValue
		}
	}
	measured.Measure(func(s capability.Sample) {
		desc, listed := descs[s.Metric]
		if !listed {
			err := fmt.Errorf("%w: %s", errNoMetric, s.Metric)
			out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
			return
		}
		metric, err := prometheus.NewConstMetric(desc, kinds[s.Metric], s.Value, s.Labels...)
		if err != nil {
			metric = prometheus.NewInvalidMetric(desc, err)
		}
		out <- metric
	})
}
