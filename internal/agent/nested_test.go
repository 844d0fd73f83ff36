package agent

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/intent/workload"
)

// crun writes a container's limit twice: to the scope, and to the group "container" below it, which has the processes.
const nestedPath = podPath + "/c1/container"

func inNested(t *testing.T, nested string, f func(t *testing.T, m *machine)) {
	t.Helper()
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(nestedPath, nested)
		f(t, m)
	})
}

func wantNested(t *testing.T, m *machine, want string) {
	t.Helper()
	if got := m.quotaOf(nestedPath); got != want {
		t.Fatalf("cpu.max below the container is %q, want %q; %s", got, want, m.statusJSON())
	}
}

func TestNestedLimitFollows(t *testing.T) {
	inNested(t, atLimit, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantNested(t, m, atCeiling)

		for range 30 { // until the credit is used up
			m.run(time.Second, m.rate(3))
		}
		wantQuota(t, m, atLimit)
		wantNested(t, m, atLimit)
		m.run(20*time.Second, 0)
		wantNested(t, m, atCeiling)
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantNested(t, m, atLimit)
		wantPodFile(t, m, podOwn)
	})
}

// A different limit below the container, or none, is not the runtime's copy of the container's limit. It stays.
func TestOtherNestedLimitsStay(t *testing.T) {
	for _, own := range []string{"20000 100000", "max 100000", "80000 100000"} {
		t.Run(own, func(t *testing.T) {
			inNested(t, own, func(t *testing.T, m *machine) {
				m.boot()
				m.tenants(container(app, podPath+"/c1"))
				m.run(4*time.Second, 0.1)
				wantQuota(t, m, atCeiling)
				wantNested(t, m, own)
			})
		})
	}
}

func TestNestedLimitOverKillsAndRewrites(t *testing.T) {
	inNested(t, atLimit, func(t *testing.T, m *machine) {
		for range 3 {
			m.boot()
			m.tenants(container(app, podPath+"/c1"))
			m.run(3*time.Second, 0.1)
			wantNested(t, m, atCeiling)
			m.kill()
		}
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(3*time.Second, 0.1)
		m.write("sys/fs/cgroup/"+nestedPath+"/cpu.max", atLimit+"\n") // the runtime again
		m.run(7*time.Second, 0.1)
		wantNested(t, m, atCeiling)
		m.tenants()
		m.run(2*time.Second, 0.1)
		wantNested(t, m, atLimit)
	})
}

// The runtime resizes both groups. The new limit becomes the original of both.
func TestNestedLimitIsResized(t *testing.T) {
	inNested(t, atLimit, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		smaller := container(app, podPath+"/c1")
		smaller.Limit = 0.25
		m.tenants(smaller)
		m.run(time.Second+100*time.Millisecond, 0.1)
		wantNested(t, m, atLimit)
		m.write("sys/fs/cgroup/"+podPath+"/c1/cpu.max", "25000 100000\n")
		m.write("sys/fs/cgroup/"+nestedPath+"/cpu.max", "25000 100000\n")
		m.run(10*time.Second, 0.05)
		wantQuota(t, m, "74998 100000")
		wantNested(t, m, "74998 100000")
		if err := m.stop(); err != nil {
			t.Fatal(err)
		}
		wantNested(t, m, "25000 100000")
	})
}

func TestNestedGroupSavesWithItsContainer(t *testing.T) {
	inNested(t, atLimit, func(t *testing.T, m *machine) {
		m.boot()
		m.tenants(saver(app, podPath+"/c1"))
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, nestedPath, "50000")
		wantNested(t, m, atLimit)
		m.tenants([]workload.Workload{}...)
		m.run(3*time.Second, 0.1)
		wantBurst(t, m, nestedPath, "0")
	})
}

// A subgroup with a workload of its own has its own policy.
func TestNestedWorkloadIsItsOwn(t *testing.T) {
	inNested(t, atLimit, func(t *testing.T, m *machine) {
		m.boot()
		inner := container("inner", nestedPath)
		inner.Burst = workload.Burst{Policy: "none", Source: "test"}
		m.tenants(container(app, podPath+"/c1"), inner)
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
		wantNested(t, m, atLimit)
	})
}
