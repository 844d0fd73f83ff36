package agent

import (
	"fmt"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/unit"
)

// quotas writes and reads the quotas of groups in periods of 100 ms, as a kubelet and a runtime do.
type quotas interface {
	set(group string, quota unit.Micros)
	of(group string) unit.Micros
}

// resizes stands for a kubelet that resizes the pod of one container to a quota. As since Kubernetes 1.33 it compares
// that with what the pod's group has: it writes the pod before the container where it is more, after it where it is
// less, and not at all where it is the same. Of the container the runtime asks the agent first.
func (m *machine) resizes(q quotas, quota unit.Micros) {
	m.t.Helper()
	before := q.of(podPath)
	if quota > before {
		q.set(podPath, quota)
	}
	m.controls.mu.Lock()
	m.controls.burst.Yield(podUID)
	m.controls.mu.Unlock()
	q.set(podPath+"/c1", quota)
	if quota < before {
		q.set(podPath, quota)
	}
}

// inV2 are those of cgroup v2.
type inV2 struct{ *machine }

func (m inV2) set(group string, quota unit.Micros) {
	m.write("sys/fs/cgroup/"+group+"/cpu.max", string(cgroup.MaxValue(quota, 100000))+"\n")
}

func (m inV2) of(group string) unit.Micros {
	m.t.Helper()
	quota, _, err := cgroup.Value(m.quotaOf(group)).Pair()
	if err != nil {
		m.t.Fatal(err)
	}
	return quota
}

// A pod whose containers all burst stands at a multiple of its own quota, and the kubelet may resize it to the very
// number. It must not find that in the file: it would write nothing, and the old quota would come back.
func TestPodResizedToWhatItIsRaisedTo(t *testing.T) {
	for percent, raised := range map[int64]unit.Micros{300: 300000, 200: 200000, 150: 150000} {
		t.Run(fmt.Sprint(percent), func(t *testing.T) {
			inPod(t, func(t *testing.T, m *machine) {
				m.addGroup(podPath, atLimit)
				m.boot()
				c := container(app, podPath+"/c1")
				c.Burst.QuotaPercent, c.InForce = percent, true
				m.tenants(c)
				m.run(4*time.Second, 0.1)

				m.resizes(inV2{m}, raised)
				c.Limit = unit.Rate(raised, 100000)
				m.tenants(c)
				m.run(8*time.Second, 0.1)
				if err := m.stop(); err != nil {
					t.Fatal(err)
				}
				want := string(cgroup.MaxValue(raised, 100000))
				wantPodFile(t, m, want)
				wantPodFile(t, m, want, "/c1")
			})
		})
	}
}

// The same of a pod that is limited as a whole: nothing says that its limit is in force but its group.
func TestPodLimitedByItsUserResizedToItsCeiling(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.boot()
		pod := container(app, podPath)
		pod.Pod.Derived, pod.Pod.Group, pod.Limit = false, "", 1
		m.tenants(pod)
		m.run(4*time.Second, 0.1)

		m.resizes(inV2{m}, 300000)
		pod.Limit = 3
		m.tenants(pod)
		m.run(8*time.Second, 0.1)
		if got := m.status(); got.Burst.LimitCPUs != 3 || len(got.Warnings) > 0 {
			t.Errorf("limit %v, warnings %q", got.Burst.LimitCPUs, got.Warnings)
		}
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantPodFile(t, m, "300000 100000")
	})
}
