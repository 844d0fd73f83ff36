package agent

import (
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

const besidePath = podPath + "/debug"

// debugger is a container of kubectl debug: it has no limit.
func debugger() workload.Workload {
	c := container("debugger", besidePath)
	c.Limit = 0
	return c
}

// besides lets the debugger use rate CPUs for d, while app is idle.
func (m *machine) besides(d time.Duration, rate float64) {
	group, used := m.group, m.used
	usage := func() time.Duration {
		debugger, err := m.controls.host.Group(besidePath)
		if err != nil {
			m.t.Fatal(err)
		}
		defer debugger.Close()
		u, err := debugger.Usage()
		if err != nil {
			m.t.Fatal(err)
		}
		return u.Duration()
	}
	m.group = besidePath
	m.used = usage()
	m.run(d, rate)
	m.group, m.used = group, used
}

// What a container without a limit uses is paid by those that burst. When they cannot
// pay any more, the pod is back at its own limit, which holds it.
func TestUnlimitedSiblingIsCharged(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "50000 100000\n") // c1 is the pod's one container
		m.addGroup(besidePath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"), debugger())
		m.run(4*time.Second, 0)
		wantQuota(t, m, atCeiling)
		wantPod(t, m, "300000 100000")
		before := m.status().Burst.CreditSeconds

		m.besides(3*time.Second, 2)
		after := m.status().Burst.CreditSeconds
		if spent := before - after; spent < 3.5 || spent > 7 {
			t.Errorf("%.2f CPU-seconds were charged of 6, which are 4.5 more than the limit", spent)
		}
		m.besides(12*time.Second, 2)
		wantQuota(t, m, atLimit)
		wantPod(t, m, "50000 100000")
		if w := strings.Join(m.status().Warnings, "; "); !strings.Contains(w, "debugger") {
			t.Errorf("warnings %q do not name the container without a limit", w)
		}
	})
}

// What it uses while the pod holds it makes no debt: the pod is within its limit.
func TestUnlimitedSiblingMakesNoDebtWithinTheLimit(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "50000 100000\n")
		m.addGroup(besidePath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"), debugger())
		m.run(4*time.Second, 0)
		m.besides(12*time.Second, 3)
		wantQuota(t, m, atLimit)
		low := m.status().Burst.CreditSeconds
		m.besides(30*time.Second, 0.5)
		if now := m.status().Burst.CreditSeconds; now < low-1.6 || now > low+1.6 {
			t.Errorf("credit %.2f after half a minute at the pod's limit, was %.2f", now, low)
		}
	})
}

// What the pod's limit leaves beyond its containers' is free for the others: here half a
// CPU of the second container, which does not run.
func TestUnlimitedSiblingUsesWhatIsSpare(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(besidePath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"), debugger())
		m.run(4*time.Second, 0)
		full := m.status().Burst.CreditSeconds
		m.besides(10*time.Second, 0.45)
		if now := m.status().Burst.CreditSeconds; now < full-unit.CPUSeconds(0.1) {
			t.Errorf("credit %.2f, was %.2f", now, full)
		}
		wantQuota(t, m, atCeiling)
	})
}

// One that comes while the container stands raised is charged from its first moment.
func TestUnlimitedSiblingThatComesLater(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.write("sys/fs/cgroup/"+podPath+"/cpu.max", "50000 100000\n")
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0)
		wantQuota(t, m, atCeiling)
		m.addGroup(besidePath, "max 100000")
		m.stat(besidePath, 5*time.Second)
		m.tenants(container(app, podPath+"/c1"), debugger())
		m.run(2*time.Second, 0)
		if credit := m.status().Burst.CreditSeconds; credit > 16.5 {
			t.Errorf("credit %.2f of 20 after 5 CPU-seconds beside it", credit)
		}
		m.tenants(container(app, podPath+"/c1")) // it ended
		m.run(10*time.Second, 0)
		if w := m.status().Warnings; len(w) > 0 {
			t.Errorf("warnings %q", w)
		}
		wantQuota(t, m, atCeiling)
	})
}

// What a sibling with a limit uses that does not burst, because its quota is another
// writer's, is not spare for a container without a limit.
func TestUnlimitedSiblingHasNotWhatOthersUse(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(besidePath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"), container("other", podPath+"/c2"), debugger())
		m.run(2*time.Second, 0)
		for range 2 { // twice within a minute: it is left to its writer
			m.write("sys/fs/cgroup/"+podPath+"/c2/cpu.max", "70000 100000\n")
			m.run(7*time.Second, 0)
		}
		if got := m.quotaOf(podPath + "/c2"); got != "70000 100000" {
			t.Fatalf("the sibling has %s", got)
		}
		before := m.status().Burst.CreditSeconds
		sibling := time.Duration(0)
		for range 50 {
			m.besides(100*time.Millisecond, 1)
			sibling += 50 * time.Millisecond
			m.stat(podPath+"/c2", sibling)
		}
		after := m.status().Burst.CreditSeconds
		if spent := before - after; spent < 2 || spent > 3 {
			t.Errorf("%.2f CPU-seconds are gone of 2.5 that the pod used beyond its limit", spent)
		}
	})
}

// A container that ended loses its group between two gatherings of its pod, while the
// others are looked at: kubectl debug ends so.
func TestUnlimitedSiblingThatEnds(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		m.addGroup(besidePath, "max 100000")
		m.boot()
		m.tenants(container(app, podPath+"/c1"), debugger())
		m.run(2*time.Second, 0)
		before := m.status().Burst.CreditSeconds
		m.tenants(container(app, podPath+"/c1"))
		m.run(990*time.Millisecond, 0)
		if after := m.status().Burst.CreditSeconds; after < before {
			t.Errorf("credit %v, and %v when it had ended", before, after)
		}
		m.run(2*time.Second, 0)
		wantQuota(t, m, atCeiling)
	})
}
