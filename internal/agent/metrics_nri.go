package agent

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/internal/nri"
)

// collectNRI sends the metrics of the line to the container runtime, where there is
// one.
func (s *clusterState) collectNRI(out chan<- prometheus.Metric) {
	if s.around == nil || s.around.plugin == nil {
		return
	}
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	status, latency := s.around.plugin.Status(), s.around.plugin.Latency()
	connected := 0.0
	if status.State == nri.Connected {
		connected = 1
	}
	out <- prometheus.MustNewConstMetric(describe("nri_connected", "1 while the container runtime asks before it makes a container."),
		gauge, connected)
	out <- prometheus.MustNewConstMetric(describe("nri_connections_total", "How often the runtime was connected to."),
		counter, float64(status.Connections))
	out <- prometheus.MustNewConstMetric(describe("nri_late_total", "Requests of the runtime that were not answered in time."),
		counter, float64(status.Late))
	out <- prometheus.MustNewConstMetric(
		describe("nri_runtime_info", "1, with the container runtime that was last connected to, and its NRI.", "runtime", "version", "nri"),
		gauge, 1, status.Runtime, status.RuntimeVersion, status.NRIVersion)
	out <- prometheus.MustNewConstHistogram(
		describe("nri_request_seconds", "How long the container runtime waited for an answer, time spent behind other requests included."),
		latency.Count, latency.Sum.Seconds(), cumulative(latency.Bounds, latency.Counts))
}

// cumulative returns counts by upper bound in seconds, each with those below it.
func cumulative(bounds []time.Duration, counts []uint64) map[float64]uint64 {
	out := map[float64]uint64{}
	var sum uint64
	for i, bound := range bounds {
		sum += counts[i]
		out[bound.Seconds()] = sum
	}
	return out
}
