package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	podUID  = "4a3c"
	podPath = "kubepods/pod4a3c"
)

// container returns a pod's container as the agent derives it: half a CPU, up to three times that for 20 s.
func container(name, group string) workload.Workload {
	return workload.Workload{
		Name: name, Cgroup: group, Limit: 0.5,
		Pod: workload.InPod{UID: podUID, Group: podPath, Derived: true},
		Burst: workload.Burst{
			Policy: "cfsQuotaBurstOnly", QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 20, Source: "test",
		},
	}
}

// inPod provides a machine whose app is one of two containers of a pod.
func inPod(t *testing.T, f func(t *testing.T, m *machine)) {
	t.Helper()
	in(t, func(t *testing.T, m *machine) {
		m.addGroup("kubepods", "max 100000")
		m.addGroup(podPath, "100000 100000")
		m.group = podPath + "/c1"
		m.addGroup(m.group, atLimit)
		m.addGroup(podPath+"/c2", atLimit)
		f(t, m)
	})
}

// tenants makes these containers the node's containers from the next second on.
func (m *machine) tenants(all ...workload.Workload) {
	m.controls.mu.Lock()
	m.controls.cluster.containers, m.controls.cluster.settled = all, true
	m.controls.load()
	m.controls.mu.Unlock()
}

// targetOf returns the journal's target for a knob of a group.
func (m *machine) targetOf(group string, k cgroup.Knob) plan.Target {
	return cgroupfile.Target(group, k)
}

func wantPod(t *testing.T, m *machine, want string) {
	t.Helper()
	if got := m.quotaOf(podPath); got != want {
		t.Fatalf("cpu.max of the pod is %q, want %q; %s", got, want, m.statusJSON())
	}
}

// The quotas are the pod's own 1 CPU, and for each raised container twice 1.5 CPUs minus 0.5. They are 2 µs less, so
// that no kubelet writes the same value.
const (
	podRaisedOnce  = "349998 100000"
	podRaisedTwice = "599998 100000"
	podOwn         = "100000 100000"
)

func TestPodRisesWithItsContainers(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantPod(t, m, podRaisedOnce)

		m.tenants(container(app, podPath+"/c1"), container("other", podPath+"/c2"))
		m.run(4*time.Second, 0.1)
		wantPod(t, m, podRaisedTwice)
		if got := m.quotaOf(podPath + "/c2"); got != atCeiling {
			t.Errorf("the other container has %q, want %q", got, atCeiling)
		}

		m.tenants(container("other", podPath+"/c2"))
		m.run(2*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		wantPod(t, m, podRaisedOnce)
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantPodFile(t, m, podOwn)
		wantPodFile(t, m, atLimit, "/c1", "/c2")
	})
}

func wantPodFile(t *testing.T, m *machine, want string, below ...string) {
	t.Helper()
	for _, name := range append([]string{""}, below...) {
		if name == "" && len(below) > 0 {
			continue
		}
		if got := m.quotaOf(podPath + name); got != want {
			t.Errorf("cpu.max of %q is %q, want %q", podPath+name, got, want)
		}
	}
}

// A pod's quota does not grow over kills of the agent: it depends only on the containers that are raised.
func TestPodDoesNotDriftOverRestarts(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		for range 4 {
			m.boot()
			m.tenants(container(app, podPath+"/c1"))
			m.run(3*time.Second, 0.1)
			wantPod(t, m, podRaisedOnce)
			m.kill()
		}
		m.boot()
		m.run(3*time.Second, 0.1) // no workload asks any more
		wantPod(t, m, podOwn)
		wantQuota(t, m, atLimit)
	})
}

func TestPodLimitedByItsUserCapsItsContainers(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(podPath+"/c2", "max 100000") // claims nothing of the pod's quota
		m.boot()
		c := container(app, podPath+"/c1")
		c.Pod.Derived = false
		m.tenants(c)
		m.run(4*time.Second, 0.1)
		wantPod(t, m, podOwn)
		wantQuota(t, m, "99998 100000") // the pod's limit, not the policy's 1.5
	})
}

// A pod with a limit of its user bursts as any other limited group does, with its own account.
func TestPodLimitedByItsUserBursts(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(podPath+"/c2", "max 100000") // claims nothing of the pod's quota
		m.boot()
		c, pod := container(app, podPath+"/c1"), container("pod", podPath)
		c.Pod.Derived, pod.Pod.Derived, pod.Limit = false, false, 1
		m.tenants(c, pod)
		m.run(4*time.Second, 0.1)
		wantPod(t, m, "299998 100000")
		wantQuota(t, m, "99998 100000")
	})
}

func TestPodWithoutQuotaIsLeftAlone(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(podPath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantPod(t, m, "max 100000")
	})
}

// When the kubelet resizes a pod, the containers return to their limits as soon as the spec changes. The kubelet's
// values then become the originals.
func TestResizedPodGoesBackToItsLimitFirst(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		smaller := container(app, podPath+"/c1")
		smaller.Limit = 0.25
		m.tenants(smaller)
		m.run(time.Second+100*time.Millisecond, 0.1)
		wantQuota(t, m, atLimit)
		wantPod(t, m, podOwn)

		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "75000 100000\n")
		m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", "25000 100000\n")
		m.run(8*time.Second, 0.05)
		wantQuota(t, m, "74998 100000")
		wantPod(t, m, "199998 100000")
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantPodFile(t, m, "75000 100000")
		wantPodFile(t, m, "25000 100000", "/c1")
	})
}

// The kubelet may write the pod's quota while a container is raised. Its value becomes the original.
func TestPodQuotaOfTheKubeletBecomesTheOriginal(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "120000 100000\n")
		m.run(2*time.Second, 0.1)
		wantPod(t, m, "369998 100000")
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "120000 100000\n") // systemd writes its own value again
		m.run(2*time.Second, 0.1)
		wantPod(t, m, "369998 100000")
	})
}

// ended is the reason of a workload whose container does not run.
const ended = "the container does not run"

// A restarted container has a new group, and keeps its credit.
func TestLedgerSurvivesTheRestartOfAContainer(t *testing.T) {
	for _, restart := range []string{"the container", "the container and the agent"} {
		t.Run(restart, func(t *testing.T) {
			inPod(t, func(t *testing.T, m *machine) {
				m.boot()
				m.tenants(container(app, podPath+"/c1"))
				m.run(3*time.Second, 0)
				for range 20 {
					m.run(time.Second, m.rate(1.5))
				}
				before := m.status().Burst.CreditSeconds
				m.tenants(container(app, ""))
				m.run(time.Second, 0)
				if s := wantState(t, m, StatePending); s.Reason != ended {
					t.Errorf("reason %q, want %q", s.Reason, ended)
				}
				if restart != "the container" {
					m.run(11*time.Second, 0) // writes a checkpoint
					m.kill()
					m.boot()
				}
				m.used = 0
				m.addGroup(podPath+"/c9", atLimit)
				m.group = podPath + "/c9"
				m.tenants(container(app, podPath+"/c9"))
				m.run(time.Second, 0)
				after, earned := m.status().Burst.CreditSeconds, unit.CPUSeconds(0.5*15)
				if after < before || after > before+earned {
					t.Errorf("credit %v after the restart, %v before it", after, before)
				}
			})
		})
	}
}

// place made a pod's quota unlimited for exclusive CPUs, and the kubelet then wrote over it. burst does not own this
// quota, so it must not confirm the kubelet's value as a limit.
func TestPodOfAnotherOwner(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		pod, err := m.controls.host.Group(podPath)
		if err != nil {
			t.Fatal(err)
		}
		defer pod.Close()
		lifted := plan.Change{From: podOwn, Setting: plan.Setting{
			Target: cgroupfile.Target(podPath, cgroup.KnobMax), Value: "max 100000", Owner: plan.OwnerPlace, Workload: "ns/pod",
		}}
		id, err := pod.ID(cgroup.CPU)
		if err != nil {
			t.Fatal(err)
		}
		lifted.ID = cgroupfile.Identity(id)
		if err := m.journal.Record([]plan.Change{lifted}, time.Now()); err != nil {
			t.Fatal(err)
		}
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "120000 100000\n") // by the kubelet
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		e, known := m.journal.Entry(lifted.Target)
		if !known || e.Owner != plan.OwnerPlace || e.Original != podOwn {
			t.Errorf("entry %+v, %v", e, known)
		}
		if got := m.quotaOf(podPath); got != "120000 100000" {
			t.Errorf("the pod has %q", got)
		}
		_ = m.stop()
	})
}

// A container that gets a limit while the agent runs bursts with its pod from that second on. The pod's quota never
// bounds it.
func TestLimitThatAppearsRisesWithItsPod(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(podPath+"/c1", "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(3*time.Second, 0.1)
		if got := m.status().State; got != burst.StateNoLimit {
			t.Fatalf("state %v, want %v", got, burst.StateNoLimit)
		}
		m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", atLimit+"\n")
		m.run(3*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantPod(t, m, podRaisedOnce)
		if events := m.events(); len(events) > 0 {
			t.Errorf("events %+v, want none", events)
		}
		_ = m.stop()
	})
}

// A pod's group that is unreadable for a moment continues to follow its containers afterwards.
func TestPodThatCannotBeReadForAMoment(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantPod(t, m, podRaisedOnce)
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "nonsense\n")
		m.run(2*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", podRaisedOnce+"\n")
		m.run(2*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantPod(t, m, podRaisedOnce)
		_ = m.stop()
	})
}
