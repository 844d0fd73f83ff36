package agent

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/berth-project/berth/internal/nri"
)

// collectNRI sends the metrics of the line to the container runtime, where there is
// one.
func (s *clusterState) collectNRI(out sender) {
	if s.connected == nil {
		return
	}
	status, ok := s.connected.runtime.NRI()
	if !ok {
		return
	}
	connected := 0.0
	if status.State == nri.Connected {
		connected = 1
	}
	out.gauge(describe("nri_connected", "1 while the container runtime asks before it makes a container."), connected)
	out.count(describe("nri_connections_total", "How often the runtime was connected to."), float64(status.Connections))
	out.count(describe("nri_late_total", "Requests of the runtime that were not answered in time."), float64(status.Late))
	out.gauge(describe("nri_runtime_info", "1, with the container runtime that was last connected to, and its NRI.", "runtime", "version", "nri"),
		1, status.Runtime, status.RuntimeVersion, status.NRIVersion)
	s.connected.waits.Collect(out)
}

// newNRIWaits returns the histogram of the answers to the container runtime.
func newNRIWaits() prometheus.Histogram {
	return prometheus.NewHistogram(prometheus.HistogramOpts{
		Name:    "berth_nri_request_seconds",
		Help:    "How long the container runtime waited for an answer, time spent behind other requests included.",
		Buckets: []float64{0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5},
	})
}
