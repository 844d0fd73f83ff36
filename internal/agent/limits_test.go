package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// A limit of 417m is 41700 µs in 100 ms, and 42000 µs after systemd has rounded it. Neither value is a resize.
func TestLimitThatSystemdRounds(t *testing.T) {
	for limit, raised := range map[string]string{"41700 100000": "125098 100000", "42000 100000": "125998 100000"} {
		t.Run(limit, func(t *testing.T) {
			inPod(t, func(t *testing.T, m *machine) {
				m.addGroup(podPath+"/c1", limit)
				m.boot()
				c := container(app, podPath+"/c1")
				c.Limit = 0.417
				m.tenants(c)
				m.run(4*time.Second, 0.1)
				wantQuota(t, m, raised)
				if w := m.status().Warnings; len(w) > 0 {
					t.Errorf("warnings %q", w)
				}
			})
		})
	}
}

// systemd writes its rounded limit over a raised quota at every daemon-reload. This is never a conflict, however often
// it happens.
func TestDaemonReloadOfARoundedLimit(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(podPath+"/c1", "41700 100000")
		m.boot()
		c := container(app, podPath+"/c1")
		c.Limit = 0.417
		m.tenants(c)
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, "125098 100000")
		for range 3 {
			m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", "42000 100000\n")
			m.run(3*time.Second, 0.1)
			wantQuota(t, m, "125998 100000")
		}
		wantState(t, m, StateActive)
	})
}

// While the kubelet defers a resize, the container keeps bursting above its present limit. The limit of the spec
// becomes the original once the kubelet writes it.
func TestHeldResizeGoesOnBursting(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		c := container(app, podPath+"/c1")
		c.Asked = 1
		m.tenants(c)
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)

		m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", "100000 100000\n")
		m.run(4*time.Second, 0.1)
		e, known := m.journal.Entry(m.targetOf(podPath+"/c1", cgroup.KnobMax))
		if !known || e.Original != "100000 100000" {
			t.Errorf("the original is %q, want the limit that the kubelet wrote", e.Original)
		}
		if got := m.status().Burst.LimitCPUs; got != unit.CPUs(1) {
			t.Errorf("limit %v, want 1", got)
		}
	})
}

// In a period below 5 ms nearly every quota equals the quota of some limit, so that a raised quota looks like a limit.
// A resize to exactly the raised quota does not change the file. The container keeps its old limit until the kubelet
// reports the new one in effect.
func TestResizeToTheRaisedQuota(t *testing.T) {
	for name, killed := range map[string]bool{"while the agent runs": false, "while it was dead": true} {
		t.Run(name, func(t *testing.T) {
			inPod(t, func(t *testing.T, m *machine) {
				m.addGroup(podPath, "4000 4000")
				m.addGroup(podPath+"/c1", "2000 4000")
				m.boot()
				c := container(app, podPath+"/c1")
				c.InForce = true
				m.tenants(c)
				m.run(4*time.Second, 0.1)
				wantQuota(t, m, "6000 4000")

				if killed {
					m.kill()
				}
				m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", "6000 4000\n") // by the kubelet
				m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "8000 4000\n")
				c.Limit, c.InForce = 1.5, false // the spec arrives before the status
				if killed {
					m.makes()
				}
				m.tenants(c)
				if killed {
					m.begin()
				}
				m.run(4*time.Second, 0.1)
				wantQuota(t, m, "2000 4000")

				c.InForce = true
				m.tenants(c)
				m.run(4*time.Second, 0.1)
				e, known := m.journal.Entry(m.targetOf(podPath+"/c1", cgroup.KnobMax))
				if !known || e.Original != "6000 4000" {
					t.Errorf("the original is %q, want the limit that the kubelet wrote", e.Original)
				}
				if got := m.status().Burst.LimitCPUs; got != unit.CPUs(1.5) {
					t.Errorf("limit %v, want 1.5", got)
				}
				wantQuota(t, m, "18000 4000")
				wantState(t, m, StateActive)
				if w := m.status().Warnings; len(w) > 0 {
					t.Errorf("warnings %q", w)
				}
			})
		})
	}
}

// A limit that no group had is not in effect, even if the kubelet says so: another program may have set a different
// limit before Berth came.
func TestLimitInForceThatNoGroupHad(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		c := container(app, podPath+"/c1")
		c.Limit, c.InForce = 1.5, true
		m.tenants(c)
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		if got := m.status().Burst.LimitCPUs; got != unit.CPUs(0.5) {
			t.Errorf("limit %v, want 0.5", got)
		}
	})
}
