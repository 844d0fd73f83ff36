package metrics_test

import (
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/unit"
)

// fake is a capability that gives these samples of the metrics of another one.
type fake struct {
	info    capability.Info
	samples []capability.Sample
}

func (f fake) Describe() capability.Info          { return f.info }
func (fake) Outcome(time.Time) capability.Outcome { return capability.Outcome{} }
func (fake) Recall(capability.Sections) error     { return nil }
func (f fake) Measure(add func(capability.Sample)) {
	for _, s := range f.samples {
		add(s)
	}
}

// measured is an agent with one sample of each metric that it can have.
func measured() *metrics.Agent {
	a := &metrics.Agent{
		Lock: &sync.Mutex{}, Version: "test", Work: metrics.NewWork(), Problems: func() int { return 1 },
		NRI:     func() (nri.Status, bool) { return nri.Status{State: nri.Connected}, true },
		History: func() metrics.History { return metrics.History{Lost: 1} },
		Host: func() metrics.Host {
			return metrics.Host{CPU: unit.CPUSpent{Busy: 1}, Memory: []metrics.NodeMemory{{Node: 0, Total: 2, Available: 1}}}
		},
	}
	a.Work.Step("look", time.Millisecond, true)
	a.Work.Reported("CPUPinned")
	a.Work.Waits().Observe(1)
	for _, info := range agent.Capabilities() {
		f := fake{info: info}
		for _, m := range info.Metrics {
			f.samples = append(f.samples, capability.Sample{Metric: m.Name, Value: 1, Labels: make([]string, len(m.Labels))})
		}
		a.Capabilities = append(a.Capabilities, f)
	}
	return a
}

// series is one series of a scrape.
type series struct {
	labels int
	value  float64
}

func gather(t *testing.T, a *metrics.Agent) (map[string][]series, error) {
	t.Helper()
	registry, err := metrics.Registry(a)
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	all := map[string][]series{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			all[f.GetName()] = append(all[f.GetName()], series{len(m.GetLabel()), m.GetGauge().GetValue()})
		}
	}
	return all, err
}

// TestConventions holds names, kinds and help to what promlint asks for.
func TestConventions(t *testing.T) {
	registry, err := metrics.Registry(measured())
	if err != nil {
		t.Fatal(err)
	}
	families, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	problems, err := promlint.NewWithMetricFamilies(families).Lint()
	if err != nil || len(families) == 0 {
		t.Fatal(len(families), err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

// TestEachFamilyIsShown: what the lists promise is what a scrape shows, and no label names a
// group, which is another one after each restart.
func TestEachFamilyIsShown(t *testing.T) {
	shown, err := gather(t, measured())
	if err != nil {
		t.Fatal(err)
	}
	listed := map[string][]string{}
	for _, f := range metrics.Families() {
		listed["berth_"+f.Name] = f.Labels
	}
	for _, info := range agent.Capabilities() {
		for _, m := range info.Metrics {
			listed["berth_"+m.Name] = m.Labels
		}
	}
	for name, labels := range listed {
		if shown[name] == nil {
			t.Errorf("%s is listed, and no scrape shows it", name)
		} else if got := shown[name][0].labels; got != len(labels) {
			t.Errorf("%s has %d labels, listed are %q", name, got, labels)
		}
		for _, label := range labels {
			if label == "group" {
				t.Errorf("%s has the label group", name)
			}
		}
	}
	for name := range shown {
		if _, known := listed[name]; strings.HasPrefix(name, "berth_") && !known {
			t.Errorf("%s is shown, and listed nowhere", name)
		}
	}
	for _, name := range []string{"process_resident_memory_bytes", "process_cpu_seconds_total", "go_goroutines"} {
		if shown[name] == nil {
			t.Errorf("a scrape lacks %s of the process", name)
		}
	}
}

// TestSampleOfAnUnlistedMetric says that a sample without a metric fails the scrape, and
// not the agent.
func TestSampleOfAnUnlistedMetric(t *testing.T) {
	a := measured()
	a.Capabilities = []capability.Capability{fake{samples: []capability.Sample{{Metric: "surprise"}}}}
	if _, err := gather(t, a); err == nil || !strings.Contains(err.Error(), "does not list: surprise") {
		t.Errorf("gathered with %v", err)
	}
}

// TestSeriesTwice: a container that ends and the one in its place have the same labels, and
// the scrape goes on.
func TestSeriesTwice(t *testing.T) {
	a := measured()
	info := capability.Info{Metrics: []capability.Metric{{Name: "x", Help: "x.", Labels: capability.WorkloadLabels()}}}
	one := capability.Sample{Metric: "x", Value: 1, Labels: capability.LabelsOf("shop/web-0/app")}
	again := one
	again.Value = 2
	a.Capabilities = []capability.Capability{fake{info, []capability.Sample{one, again}}}
	shown, err := gather(t, a)
	if err != nil || len(shown["berth_x"]) != 1 || shown["berth_x"][0].value != 1 {
		t.Errorf("shown %v, %v", shown["berth_x"], err)
	}
}

// TestEachEventBeginsAtZero: a rate is 0 at the first value of a series, so that the first event of
// a reason would be in none.
func TestEachEventBeginsAtZero(t *testing.T) {
	shown, err := gather(t, &metrics.Agent{
		Lock: &sync.Mutex{}, Work: metrics.NewWork(), Problems: func() int { return 0 },
		NRI:     func() (nri.Status, bool) { return nri.Status{}, false },
		History: func() metrics.History { return metrics.History{} },
		Host:    func() metrics.Host { return metrics.Host{} },
	})
	if got, want := len(shown["berth_events_total"]), len(v1alpha1.EventReasons()); got != want || err != nil {
		t.Errorf("%d series, %v, want %d", got, err, want)
	}
}

// TestHost checks the CPU time and the memory of the host. A part that cannot be read has no series: a counter at 0
// would look like a boot.
func TestHost(t *testing.T) {
	a := measured()
	for _, host := range []metrics.Host{
		{},
		{CPU: unit.CPUSpent{Busy: 1_500_000_000, Idle: 60_000_000_000}},
		{Memory: []metrics.NodeMemory{{Node: 0, Total: 8 << 30, Available: 3 << 30}, {Node: 3, Total: 0}}},
	} {
		a.Host = func() metrics.Host { return host }
		registry, err := metrics.Registry(a)
		if err != nil {
			t.Fatal(err)
		}
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got, want := map[string]float64{}, map[string]float64{}
		for _, f := range families {
			if !strings.HasPrefix(f.GetName(), "berth_node_cpu_") && !strings.HasPrefix(f.GetName(), "berth_node_memory_") {
				continue
			}
			for _, m := range f.GetMetric() {
				got[f.GetName()+" "+m.GetLabel()[0].GetValue()] = m.GetGauge().GetValue() + m.GetCounter().GetValue()
			}
		}
		if host.CPU != (unit.CPUSpent{}) {
			want["berth_node_cpu_seconds_total busy"], want["berth_node_cpu_seconds_total idle"] = 1.5, 60
			want["berth_node_cpu_seconds_total steal"] = 0
		}
		if host.Memory != nil {
			want["berth_node_memory_bytes 0"], want["berth_node_memory_available_bytes 0"] = 8<<30, 3<<30
			want["berth_node_memory_bytes 3"], want["berth_node_memory_available_bytes 3"] = 0, 0
		}
		if !maps.Equal(got, want) {
			t.Errorf("%+v: series %v, want %v", host, got, want)
		}
	}
}

// TestCPUTimeOnlyRises checks that no mode of the host's CPU time decreases from one scrape to the next. The kernel's
// idle time can decrease, and Prometheus takes a lower counter for a boot.
func TestCPUTimeOnlyRises(t *testing.T) {
	a := measured()
	var host metrics.Host
	a.Host = func() metrics.Host { return host }
	registry, err := metrics.Registry(a)
	if err != nil {
		t.Fatal(err)
	}
	const second = 1_000_000_000
	for _, step := range []struct {
		read unit.CPUSpent
		want map[string]float64
	}{
		{unit.CPUSpent{Busy: 2 * second, Idle: 9 * second, Steal: second}, map[string]float64{"busy": 2, "idle": 9, "steal": 1}},
		{unit.CPUSpent{Busy: 3 * second, Idle: 7 * second, Steal: second}, map[string]float64{"busy": 3, "idle": 9, "steal": 1}},
		{unit.CPUSpent{}, map[string]float64{}}, // it cannot be read
		{unit.CPUSpent{Busy: 4 * second, Idle: 10 * second, Steal: second}, map[string]float64{"busy": 4, "idle": 10, "steal": 1}},
	} {
		host.CPU = step.read
		families, err := registry.Gather()
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]float64{}
		for _, f := range families {
			if f.GetName() != "berth_node_cpu_seconds_total" {
				continue
			}
			for _, m := range f.GetMetric() {
				got[m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
		if !maps.Equal(got, step.want) {
			t.Errorf("%+v: %v, want %v", step.read, got, step.want)
		}
	}
}
