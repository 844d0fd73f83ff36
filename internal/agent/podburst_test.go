package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// saver returns a container with only the kernel's burst.
func saver(name, group string) workload.Workload {
	c := container(name, group)
	c.Burst = workload.Burst{Policy: "cpuBurstOnly", KernelBurst: true, CPUBurstPercent: 1000, QuotaPercent: 300, PeriodSeconds: 20, Source: "test"}
	return c
}

func (m *machine) burstOf(group string) string {
	return m.read("sys/fs/cgroup/" + group + "/cpu.max.burst")
}

func wantBurst(t *testing.T, m *machine, group, want string) {
	t.Helper()
	if got := m.burstOf(group); got != want {
		t.Fatalf("cpu.max.burst of %q is %q, want %q", group, got, want)
	}
}

// A pod's burst is the sum of its containers' bursts. Without it the pod would throttle what the bursts of its
// containers allow.
func TestPodSavesWithItsContainers(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(saver(app, podPath+"/c1"))
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, podPath+"/c1", "50000")
		wantBurst(t, m, podPath, "50000")
		m.tenants(saver(app, podPath+"/c1"), saver("other", podPath+"/c2"))
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, podPath, "100000")
		wantPod(t, m, podOwn) // the quota does not move

		m.tenants(saver("other", podPath+"/c2"))
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, podPath, "50000")
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantBurst(t, m, podPath, "0")
		wantBurst(t, m, podPath+"/c2", "0")
	})
}

// A pod's burst does not grow over kills of the agent, and returns to 0 when no container asks any more.
func TestBurstOfAPodOverRestarts(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		for range 3 {
			m.boot()
			m.tenants(saver(app, podPath+"/c1"))
			m.run(3*time.Second, 0.1)
			wantBurst(t, m, podPath, "50000")
			m.kill()
		}
		m.boot()
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, podPath, "0")
	})
}

// The kernel refuses a quota below the burst. Before a resize, the bursts of the pod and of its containers shrink.
func TestBurstOfAPodShrinksForAResize(t *testing.T) {
	for _, way := range []string{"the spec says so", "the runtime says so"} {
		t.Run(way, func(t *testing.T) {
			inPod(t, func(t *testing.T, m *machine) {
				m.boot()
				m.tenants(saver(app, podPath+"/c1"))
				m.run(3*time.Second, 0.1)
				wantBurst(t, m, podPath, "50000")
				if way == "the spec says so" {
					smaller := saver(app, podPath+"/c1")
					smaller.Limit = 0.25
					m.tenants(smaller)
					m.run(6*time.Second, 0.1)
					wantBurst(t, m, podPath, "25000")
					return
				}
				m.announces(podUID)
				wantBurst(t, m, podPath, "0")
				wantBurst(t, m, podPath+"/c1", "0")
				m.run(burst.YieldFor+6*time.Second, 0.1)
				wantBurst(t, m, podPath, "50000")
			})
		})
	}
}

// Another writer's burst on the pod stays, and so do the bursts of its containers.
func TestForeignBurstOfAPod(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(saver(app, podPath+"/c1"))
		m.run(3*time.Second, 0.1)
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max.burst", "12345\n")
		m.run(10*time.Second, 0.1)
		wantBurst(t, m, podPath, "12345")
		wantBurst(t, m, podPath+"/c1", "50000")
		if e, known := m.journal.Entry(m.targetOf(podPath, cgroup.KnobBurst)); !known || e.Original != "0 100000" {
			t.Errorf("entry %+v, %v", e, known)
		}
		want := `cpu.max.burst of kubepods/pod4a3c is "12345 100000", Berth had "50000 100000": it is left to whoever writes it, and the pod's group throttles what the container saved`
		if got := m.status().Burst.Limited; got != want {
			t.Errorf("limited %q, want %q", got, want)
		}
		_ = m.stop()
	})
}
