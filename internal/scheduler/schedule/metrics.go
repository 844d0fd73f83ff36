package schedule

import (
	"errors"
	"strconv"

	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/component-base/metrics"
	"k8s.io/klog/v2"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

const subsystem = "berth_scheduler"

// meters are the metrics of the plugin; doc.go lists them.
type meters struct {
	refusals  *metrics.CounterVec
	decisions *metrics.CounterVec
	races     *metrics.Counter
	ambiguous *metrics.Counter
	overlaps  *metrics.Counter
	invalids  *metrics.Counter
	bypassed  *metrics.Counter
	memo      *metrics.CounterVec
	narrowed  *metrics.CounterVec
	pods      *metrics.GaugeVec
	// shortPods and shortCPUs are about pods that wait because of fragmentation.
	shortPods, shortCPUs *metrics.GaugeVec
}

// tally has the counts that are collected by sweep, and not counted when they change.
type tally struct {
	hits, misses                          float64
	unknown, reserved, ambiguous, waiting int
	fragmented                            map[placement.Constraint]fragmented
}

// newMeters creates and registers the metrics. If another plugin of this process registered the metrics before, those
// of this plugin are counted and not served.
func newMeters(register func(metrics.Registerable) error) *meters {
	m := &meters{
		refusals: counterVec("refusals_total",
			"Pods refused in a scheduling cycle, by reason; a pod counts once a cycle and reason.", "reason"),
		decisions: counterVec("decisions_total",
			"Placements decided, by result: reserved, bound.", "result"),
		races: counter("lost_races_total",
			"Pods tried again because, after the choice, another pod got their CPUs, memory or NUMA nodes, their node changed, "+
				"or the accounting rule left them no room."),
		ambiguous: counter("ambiguous_binds_total",
			"Bindings with an unknown result: the call failed, but the API server may have carried it out."),
		overlaps: counter("overlaps_total",
			"Bound pods observed with CPUs of another bound pod of the node."),
		invalids: counter("invalid_policies_total",
			"Pods scheduled as ordinary pods because their CPU keys are not valid."),
		bypassed: counter("bypassed_total",
			"Pinned pods that another binder bound without their CPUs: the profile lacks Berth in bind."),
		memo: counterVec("memo_lookups_total",
			"Answers of nodes, by cache result: hit, miss.", "result"),
		narrowed: counterVec("narrowed_total",
			"Cycles in which the plugin offered some nodes only, by kind: best, open.", "result"),
		pods: gaugeVec("pods",
			"Pods by state: reserved (not bound yet), ambiguous (an ambiguous bind), "+
				"unknown (pinned without a valid placement), waiting (refused in their last cycle).", "state"),
		shortPods: gaugeVec("fragmented_pods",
			"Pods that wait although a node has enough free CPUs, by unmet constraint: cores, l3, numa, exclusive, pool.", "constraint"),
		shortCPUs: gaugeVec("fragmented_missing_cpus",
			"CPUs that these pods lack in the right places, on the node that lacks the fewest for each pod.", "constraint"),
	}
	for _, one := range []metrics.Registerable{
		m.refusals, m.decisions, m.races, m.ambiguous, m.overlaps, m.invalids, m.bypassed, m.memo, m.narrowed, m.pods,
		m.shortPods, m.shortCPUs,
	} {
		var twice prometheus.AlreadyRegisteredError
		if err := register(one); err != nil && !errors.As(err, &twice) {
			klog.Background().Error(err, "Metric is not served", "metric", one.FQName())
		}
	}
	return m
}

func counter(name, help string) *metrics.Counter {
	return metrics.NewCounter(&metrics.CounterOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	})
}

func counterVec(name, help, label string) *metrics.CounterVec {
	return metrics.NewCounterVec(&metrics.CounterOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{label})
}

func gaugeVec(name, help, label string) *metrics.GaugeVec {
	return metrics.NewGaugeVec(&metrics.GaugeOpts{
		Subsystem: subsystem, Name: name, Help: help, StabilityLevel: metrics.ALPHA,
	}, []string{label})
}

func (m *meters) refused(why refusal) { m.refusals.WithLabelValues(why.String()).Inc() }
func (m *meters) reserved()           { m.decisions.WithLabelValues("reserved").Inc() }
func (m *meters) bound()              { m.decisions.WithLabelValues("bound").Inc() }
func (m *meters) lost()               { m.races.Inc() }
func (m *meters) ambiguousBind()      { m.ambiguous.Inc() }
func (m *meters) overlap()            { m.overlaps.Inc() }
func (m *meters) invalid()            { m.invalids.Inc() }
func (m *meters) bypass()             { m.bypassed.Inc() }
func (m *meters) narrow(to string)    { m.narrowed.WithLabelValues(to).Inc() }

func (m *meters) count(t tally) {
	m.memo.WithLabelValues("hit").Add(t.hits)
	m.memo.WithLabelValues("miss").Add(t.misses)
	m.pods.WithLabelValues("unknown").Set(float64(t.unknown))
	m.pods.WithLabelValues("reserved").Set(float64(t.reserved))
	m.pods.WithLabelValues("ambiguous").Set(float64(t.ambiguous))
	m.pods.WithLabelValues("waiting").Set(float64(t.waiting))
	for _, constraint := range placement.Constraints() {
		m.shortPods.WithLabelValues(string(constraint)).Set(float64(t.fragmented[constraint].pods))
		m.shortCPUs.WithLabelValues(string(constraint)).Set(float64(t.fragmented[constraint].cpus))
	}
}

// String returns the name of a single reason in the metric.
func (r refusal) String() string {
	switch {
	case r&refusedByRace != 0:
		return "race"
	case r == refusedByTopology:
		return "topology"
	case r == refusedByCPUs:
		return "cpus"
	case r == refusedByPromise:
		return "promised"
	case r == refusedByPolicy:
		return "policy"
	case r == refusedByRule:
		return "rule"
	case r == refusedBySize:
		return "size"
	case r == refusedByCap:
		return "cap"
	default:
		return "reasons " + strconv.FormatUint(uint64(r), 2)
	}
}
