package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
)

// schedExt puts a BPF scheduler in this state on the machine.
func (m *machine) schedExt(state, name, switchAll string) {
	const dir = "sys/kernel/sched_ext/"
	m.write(dir+"state", state+"\n")
	m.write(dir+"switch_all", switchAll+"\n")
	m.write(dir+"root/ops", name+"\n")
}

// explained returns explain's lines about the burst of app.
func (m *machine) explained() string {
	m.t.Helper()
	v := m.served()
	for _, w := range v.Statuses() {
		if w.Name == app {
			told, err := burst.Info().Reader.Workload(capability.Reported{Alive: true, Node: v.Node, Workload: w.Workload, Row: w.Sections})
			if err != nil {
				m.t.Fatal(err)
			}
			return strings.Join(told.Lines, "\n")
		}
	}
	m.t.Fatal("no workload app")
	return ""
}

// While a BPF scheduler has all threads, the kernel enforces no cpu.max. The quota stays at the limit, and an event,
// status and explain name the scheduler. When the scheduler is gone, the credit is valid again.
func TestBurstBesideSchedExt(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)

		m.schedExt("enabled", "scx_rusty", "1")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		s := m.status().Burst
		if s.Decision != "Unenforced" || !strings.Contains(s.Limited, "unsupported: sched_ext scx_rusty") {
			t.Errorf("decision %q, limited by %q", s.Decision, s.Limited)
		}
		event := v1alpha1.EventCPUBurstLimited + " workload=" + app + ` reason="unsupported: sched_ext scx_rusty has all threads`
		if n := strings.Count(m.log.String(), event); n != 1 {
			t.Errorf("%d times %s in the log:\n%s", n, event, m.log)
		}
		if said := m.events(); len(said) != 1 || said[0].Reason != v1alpha1.EventCPUBurstLimited || said[0].About != app || !strings.Contains(said[0].Text, "scx_rusty") {
			t.Errorf("events %+v", said)
		}
		if told := m.explained(); !strings.Contains(told, "limited   "+s.Limited) {
			t.Errorf("explain does not say %q:\n%s", s.Limited, told)
		}

		m.schedExt("enabled", "scx_rusty", "0") // Only threads that ask for it use it.
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)

		m.schedExt("enabled", "scx_rusty", "1")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		m.schedExt("disabled", "scx_rusty", "1")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		if told := m.explained(); strings.Contains(told, "sched_ext") {
			t.Errorf("explain after it:\n%s", told)
		}
	})
}

// An agent that starts under a BPF scheduler raises no quota until the scheduler is gone.
func TestStartUnderSchedExt(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.schedExt("enabled", "scx_lavd", "1")
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		for range 30 {
			m.run(time.Second, 0.1)
			wantQuota(t, m, atLimit)
		}
		if told := m.explained(); !strings.Contains(told, "unsupported: sched_ext scx_lavd") {
			t.Errorf("explain:\n%s", told)
		}
		m.schedExt("disabled", "scx_lavd", "1")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
	})
}
