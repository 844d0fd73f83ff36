package agent

import (
	"strings"
	"testing"
	"time"
)

// While a BPF scheduler has all threads the kernel holds none to its cpu.max: the quota stands at
// the limit, and status names the scheduler. When it is gone, credit counts again.
func TestBurstBesideSchedExt(t *testing.T) {
	inPod(t, func(t *testing.T, m *machine) {
		const dir = "sys/kernel/sched_ext/"
		m.boot()
		m.tenants(container(app, podPath+"/c1"))
		m.run(4*time.Second, 0.1)
		wantQuota(t, m, atCeiling)

		m.write(dir+"state", "enabled\n")
		m.write(dir+"switch_all", "1\n")
		m.write(dir+"root/ops", "scx_rusty\n")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		s := m.status().Burst
		if s.Decision != "Unenforced" || !strings.Contains(s.Limited, "unsupported: sched_ext scx_rusty") {
			t.Errorf("decision %q, limited by %q", s.Decision, s.Limited)
		}

		m.write(dir+"switch_all", "0\n") // Only threads that ask for it are under it.
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)

		m.write(dir+"switch_all", "1\n")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atLimit)
		m.write(dir+"state", "disabled\n")
		m.run(12*time.Second, 0.1)
		wantQuota(t, m, atCeiling)
	})
}
