package metrics

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/unit"
)

// Agent is the data that each scrape reads.
type Agent struct {
	// Lock is held while the other fields are read, except for Host.
	Lock sync.Locker
	// Host reads the CPU time and the memory of the host. It is called without Lock, because it reads files.
	Host         func() Host
	Version      string
	Work         *Work
	Capabilities []capability.Capability
	// Problems counts the documents and policies that do not take effect as written.
	Problems func() int
	// History returns the size of the history.
	History func() History
	// NRI returns the state of the connection to the container runtime; false if there is none.
	NRI func() (nri.Status, bool)
}

// Registry returns the metrics of an agent for /metrics.
func Registry(a *Agent) (*prometheus.Registry, error) {
	registry := prometheus.NewRegistry()
	for _, one := range []prometheus.Collector{
		&collector{agent: a}, collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
	} {
		if err := registry.Register(one); err != nil {
			return nil, fmt.Errorf("register metrics: %w", err)
		}
	}
	return registry, nil
}

// collector turns the agent's state into metrics at each scrape.
type collector struct {
	agent *Agent
	// spent is the greatest CPU time of the host so far, by mode. The agent's Lock guards it.
	spent unit.CPUSpent
}

// Describe sends nothing: the workloads are known only at a scrape.
func (*collector) Describe(chan<- *prometheus.Desc) {}

// Collect sends the metrics of one scrape.
func (k *collector) Collect(out chan<- prometheus.Metric) {
	a := k.agent
	host := a.Host()
	a.Lock.Lock()
	defer a.Lock.Unlock()
	own := newScrape(out)
	for _, f := range Families() {
		own.add(f.Metric)
	}
	own.send(capability.Sample{Metric: nameProblems, Value: float64(a.Problems())})
	own.send(capability.Sample{Metric: nameBuild, Value: 1, Labels: []string{a.Version}})
	a.Work.collect(out)
	own.history(a.History())
	own.host(k.rising(host))
	if status, ok := a.NRI(); ok {
		own.nri(status)
	}
	for _, one := range a.Capabilities {
		measured, ok := one.(capability.Measured)
		if !ok {
			continue
		}
		s := newScrape(out)
		for _, m := range one.Describe().Metrics {
			s.add(m)
		}
		measured.Measure(s.send)
	}
}

// rising returns a host with the greatest CPU time so far of each mode. The kernel's idle time can decrease, see
// kernel.MachineSpent, and Prometheus takes a lower counter for a boot. A time that cannot be read stays zero.
func (k *collector) rising(h Host) Host {
	if h.CPU == (unit.CPUSpent{}) {
		return h
	}
	k.spent = unit.CPUSpent{
		Busy: max(k.spent.Busy, h.CPU.Busy), Idle: max(k.spent.Idle, h.CPU.Idle), Steal: max(k.spent.Steal, h.CPU.Steal),
	}
	h.CPU = k.spent
	return h
}

// errNoMetric means that a capability gave a sample of a metric that it does not list.
var errNoMetric = errors.New("sample of a metric that its capability does not list")

// scrape sends samples of listed metrics to one reader.
type scrape struct {
	out   chan<- prometheus.Metric
	descs map[string]*prometheus.Desc
	kinds map[string]prometheus.ValueType
	// sent are the series so far. Two workloads may have the same labels, as a container that ends and its successor:
	// only the first is sent. A duplicate series would fail the scrape.
	sent map[string]bool
}

func newScrape(out chan<- prometheus.Metric) *scrape {
	return &scrape{out, map[string]*prometheus.Desc{}, map[string]prometheus.ValueType{}, map[string]bool{}}
}

func (s *scrape) add(m capability.Metric) {
	s.descs[m.Name], s.kinds[m.Name] = prometheus.NewDesc(prefix+m.Name, m.Help, m.Labels, nil), prometheus.GaugeValue
	if m.Counter {
		s.kinds[m.Name] = prometheus.CounterValue
	}
}

func (s *scrape) send(sample capability.Sample) {
	desc, listed := s.descs[sample.Metric]
	if !listed {
		err := fmt.Errorf("%w: %s", errNoMetric, sample.Metric)
		s.out <- prometheus.NewInvalidMetric(prometheus.NewInvalidDesc(err), err)
		return
	}
	series := sample.Metric + "\x00" + strings.Join(sample.Labels, "\x00")
	if s.sent[series] {
		return
	}
	s.sent[series] = true
	metric, err := prometheus.NewConstMetric(desc, s.kinds[sample.Metric], sample.Value, sample.Labels...)
	if err != nil {
		metric = prometheus.NewInvalidMetric(desc, err)
	}
	s.out <- metric
}

// History is the size of the history of workloads, with its losses.
type History struct {
	history.Size
	// Lost counts lost samples.
	Lost int64
}

// history sends the size of the history.
func (s *scrape) history(h History) {
	s.send(capability.Sample{Metric: nameSeries, Value: float64(h.Series)})
	s.send(capability.Sample{Metric: nameSeriesRefused, Value: float64(h.Refused)})
	s.send(capability.Sample{Metric: nameHistoryBytes, Value: float64(h.Bytes)})
	stopped := 0.0
	if h.Stopped {
		stopped = 1
	}
	s.send(capability.Sample{Metric: nameHistoryStored, Value: float64(h.Stored)})
	s.send(capability.Sample{Metric: nameHistoryStopped, Value: stopped})
	s.send(capability.Sample{Metric: nameHistoryLost, Value: float64(h.Lost)})
}

// host sends the CPU time and the memory of the host.
func (s *scrape) host(h Host) {
	if h.CPU != (unit.CPUSpent{}) { // a counter at 0 would be a boot
		for mode, spent := range map[string]unit.CPUTime{"busy": h.CPU.Busy, "idle": h.CPU.Idle, "steal": h.CPU.Steal} {
			s.send(capability.Sample{Metric: nameCPUTime, Value: float64(spent.Seconds()), Labels: []string{mode}})
		}
	}
	for _, m := range h.Memory {
		node := []string{strconv.Itoa(m.Node)}
		s.send(capability.Sample{Metric: nameMemory, Value: float64(m.Total), Labels: node})
		s.send(capability.Sample{Metric: nameAvailable, Value: float64(m.Available), Labels: node})
	}
}

// nri sends the state of the connection to the container runtime.
func (s *scrape) nri(status nri.Status) {
	connected := 0.0
	if status.State == nri.Connected {
		connected = 1
	}
	s.send(capability.Sample{Metric: nameConnected, Value: connected})
	s.send(capability.Sample{Metric: nameConnections, Value: float64(status.Connections)})
	s.send(capability.Sample{Metric: nameLate, Value: float64(status.Late)})
	s.send(capability.Sample{Metric: nameRuntime, Value: 1, Labels: []string{status.Runtime, status.RuntimeVersion, status.NRIVersion}})
}
