package agent

import (
	"errors"
	"fmt"
	"strconv"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/unit"
)

// quotas writes and reads quotas of groups in periods of 100 ms, as a kubelet and a runtime do.
type quotas interface {
	set(group string, quota unit.Micros)
	of(group string) unit.Micros
}

// resizes acts as a kubelet that resizes a pod of one container. Since Kubernetes 1.33 it compares the quota with the
// pod's group, and writes the pod first where it grows. It writes the pod last where it shrinks, and not at all where
// the quota is equal. The runtime first asks the agent about the container.
func (m *machine) resizes(q quotas, quota unit.Micros) {
	m.t.Helper()
	before := q.of(podPath)
	if quota > before {
		q.set(podPath, quota)
	}
	m.announces(podUID)
	q.set(podPath+"/c1", quota)
	if quota < before {
		q.set(podPath, quota)
	}
}

// inV2 accesses the quotas of cgroup v2.
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

// A pod whose containers all burst has a multiple of its own quota, and the kubelet may resize it to exactly this
// value. If the kubelet found it in the file, it would write nothing, and the old quota would return.
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

// A pod that is limited as a whole is resized to its ceiling. Only its group shows that the new limit is in effect.
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

// inV1 accesses the quotas of cgroup v1, whose kernel refuses a quota above the parent's.
type inV1 struct{ *machine }

func (inV1) file(group, name string) string { return "sys/fs/cgroup/cpu/" + group + "/cpu." + name }

func (m inV1) add(group string, quota unit.Micros) {
	m.write(m.file(group, "cfs_quota_us"), fmt.Sprintln(quota))
	m.write(m.file(group, "cfs_period_us"), "100000\n")
	m.write(m.file(group, "cfs_burst_us"), "0\n")
	m.write(m.file(group, "stat"), "nr_periods 10\nnr_throttled 0\nthrottled_time 0\n")
	m.write("sys/fs/cgroup/cpu/"+group+"/cpuacct.usage", "0\n")
	m.write("sys/fs/cgroup/cpu/"+group+"/cgroup.procs", "")
}

func (m inV1) set(group string, quota unit.Micros) {
	m.t.Helper()
	if pod := m.of(podPath); group != podPath && quota > pod {
		m.t.Fatalf("%d to %s below %d: invalid argument", quota, group, pod)
	}
	m.write(m.file(group, "cfs_quota_us"), fmt.Sprintln(quota))
}

func (m inV1) of(group string) unit.Micros {
	m.t.Helper()
	quota, err := strconv.ParseInt(m.read(m.file(group, "cfs_quota_us")), 10, 64)
	if err != nil {
		m.t.Fatal(err)
	}
	return unit.Micros(quota)
}

// A kubelet that finds the pod raised mistakes a growing limit for a shrinking one, and has the runtime write the
// container first. The pod must admit that write, although the container returned to its limit before.
func TestResizeOfARaisedPodInV1(t *testing.T) {
	for name, quota := range map[string]unit.Micros{"up": 200000, "down": 60000, "far up": 700000} {
		t.Run(name, func(t *testing.T) {
			in(t, func(t *testing.T, m *machine) {
				m.write("proc/self/mountinfo", "31 23 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup cgroup rw,cpu,cpuacct\n")
				v1, group := inV1{m}, podPath+"/c1"
				v1.add("kubepods", unit.NoLimit)
				v1.add(podPath, 100000)
				v1.add(group, 100000)
				m.boot()
				c := container(app, group)
				c.Limit, c.InForce = 1, true
				m.tenants(c)
				m.run(4*time.Second, 0)
				if a, b := v1.of(podPath), v1.of(group); a != 599998 || b != 299998 {
					t.Fatalf("raised to %d below %d", b, a)
				}

				m.resizes(v1, quota)
				c.Limit = unit.Rate(quota, 100000)
				m.tenants(c)
				m.run(8*time.Second, 0)
				if err := m.stop(); err != nil {
					t.Fatal(err)
				}
				if a, b := v1.of(podPath), v1.of(group); a != quota || b != quota {
					t.Errorf("put back to %d below %d, want %d", b, a, quota)
				}
			})
		})
	}
}

// announces has the runtime ask about a container of a pod that the kubelet is about to resize. The answer itself does
// not matter here: pods of a test without a cluster have none.
func (m *machine) announces(uid string) {
	m.t.Helper()
	if _, err := m.controls.answer(nri.Event{Kind: nri.Update, Pod: nri.Pod{UID: uid}}, true); err != nil && !errors.Is(err, inventory.ErrUnknownPod) {
		m.t.Fatal(err)
	}
}
