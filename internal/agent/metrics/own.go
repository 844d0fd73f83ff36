package metrics

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
)

// Family is one metric that an agent may have.
type Family struct {
	capability.Metric
	// Buckets are the buckets of a histogram, nil for any other kind.
	Buckets []float64
}

const prefix = "berth_"

// Names of the agent's own metrics.
const (
	nameErrors         = "loop_errors_total"
	nameDrift          = "host_drift_total"
	nameProblems       = "manifest_problems"
	nameBuild          = "build_info"
	nameLateness       = "look_lateness_seconds"
	nameStep           = "loop_step_seconds"
	nameFailed         = "loop_steps_failed_total"
	nameEvents         = "events_total"
	nameConnected      = "nri_connected"
	nameConnections    = "nri_connections_total"
	nameLate           = "nri_late_total"
	nameRuntime        = "nri_runtime_info"
	nameRequests       = "nri_request_seconds"
	nameSeries         = "history_series"
	nameSeriesRefused  = "history_refused_series"
	nameHistoryBytes   = "history_bytes"
	nameHistoryStored  = "history_stored_bytes"
	nameHistoryStopped = "history_stopped"
	nameHistoryLost    = "history_lost_samples_total"
	nameCPUTime        = "node_cpu_seconds_total"
	nameMemory         = "node_memory_bytes"
	nameAvailable      = "node_memory_available_bytes"
)

// Families returns the agent's own metrics. The metrics of the capabilities are in their Info.
func Families() []Family {
	metric := func(name, help string, labels ...string) Family {
		return Family{Metric: capability.Metric{Name: name, Help: help, Labels: labels}}
	}
	counter := func(name, help string, labels ...string) Family {
		return Family{Metric: capability.Metric{Name: name, Help: help, Labels: labels, Counter: true}}
	}
	histogram := func(name, help string, buckets []float64, labels ...string) Family {
		return Family{capability.Metric{Name: name, Help: help, Labels: labels}, buckets}
	}
	return []Family{
		counter(nameErrors, "Failures of the agent's own work."),
		counter(nameDrift, "Values that the agent left to another program that keeps writing them."),
		metric(nameProblems, "Documents and policies that do not take effect as written."),
		metric(nameBuild, "1, with the version.", "version"),
		histogram(nameLateness, "How late observations of groups came.", []float64{0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 5}),
		histogram(nameStep, "How long a step of the loop took: second is the work of each second, look is one observation of a group.",
			[]float64{0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1, 5}, "step"),
		counter(nameFailed, "Steps of the loop in which something failed.", "step"),
		counter(nameEvents, "Events reported, by reason.", "reason"),
		metric(nameConnected, "1 while the container runtime asks the agent before it creates a container."),
		counter(nameConnections, "Connections to the container runtime."),
		counter(nameLate, "Requests of the runtime that the agent did not answer in time."),
		metric(nameRuntime, "1, with the container runtime of the last connection, and its NRI.", "runtime", "version", "nri"),
		histogram(nameRequests, "How long the container runtime waited for an answer, time spent behind other requests included.",
			[]float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5}),
		metric(nameSeries, "Series with a history of 15 minutes in memory, eight a workload."),
		metric(nameSeriesRefused, "Series without a history, because the limit of series is reached."),
		metric(nameHistoryBytes, "Memory of the history's closed minutes."),
		metric(nameHistoryStored, "Size of the history's files."),
		metric(nameHistoryStopped, "1 while the agent cannot write the history to disk."),
		counter(nameHistoryLost, "Samples that the history lost because the previous samples were not stored yet."),
		counter(nameCPUTime, "CPU time of the whole host since boot. busy includes interrupts, idle includes waits for disks, steal is what a hypervisor gave to others.", "mode"),
		metric(nameMemory, "Memory of a NUMA node.", "node"),
		metric(nameAvailable, "Memory of a NUMA node that is free for processes, without the kernel's reserves, or that holds clean file pages not used lately.", "node"),
	}
}

func family(name string) Family {
	for _, f := range Families() {
		if f.Name == name {
			return f
		}
	}
	return Family{}
}

// counterOf makes a counter of Families. histogramOf makes a histogram.
func counterOf(name string) *prometheus.CounterVec {
	f := family(name)
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: prefix + name, Help: f.Help}, f.Labels)
}

func histogramOf(name string) *prometheus.HistogramVec {
	f := family(name)
	return prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: prefix + name, Help: f.Help, Buckets: f.Buckets}, f.Labels)
}

// Work counts the agent's work. It is safe for concurrent use, and costs a hot path one addition.
type Work struct {
	errors, drift, failed, events *prometheus.CounterVec
	lateness, step, requests      *prometheus.HistogramVec
}

// NewWork returns a Work whose counts are 0.
func NewWork() *Work {
	w := &Work{
		errors: counterOf(nameErrors), drift: counterOf(nameDrift), failed: counterOf(nameFailed), events: counterOf(nameEvents),
		lateness: histogramOf(nameLateness), step: histogramOf(nameStep), requests: histogramOf(nameRequests),
	}
	w.errors.WithLabelValues()
	w.drift.WithLabelValues()
	w.lateness.WithLabelValues()
	for _, reason := range v1alpha1.EventReasons() { // a rate is 0 at the first value of a series
		w.events.WithLabelValues(reason)
	}
	return w
}

// Failed counts a failure of the agent's own work.
func (w *Work) Failed() { w.errors.WithLabelValues().Inc() }

// Drifted counts a value that was left to another writer.
func (w *Work) Drifted() { w.drift.WithLabelValues().Inc() }

// Late records how late an observation of a group came.
func (w *Work) Late(by time.Duration) { w.lateness.WithLabelValues().Observe(by.Seconds()) }

// Reported counts an event.
func (w *Work) Reported(reason string) { w.events.WithLabelValues(reason).Inc() }

// Step records the duration of a step of the loop, and whether something failed in it.
func (w *Work) Step(name string, took time.Duration, failed bool) {
	w.step.WithLabelValues(name).Observe(took.Seconds())
	count := w.failed.WithLabelValues(name)
	if failed {
		count.Inc()
	}
}

// Waits returns the histogram of the answers to the container runtime.
func (w *Work) Waits() prometheus.Observer { return w.requests.WithLabelValues() }

func (w *Work) collect(out chan<- prometheus.Metric) {
	for _, one := range []prometheus.Collector{w.errors, w.drift, w.failed, w.events, w.lateness, w.step, w.requests} {
		one.Collect(out)
	}
}
