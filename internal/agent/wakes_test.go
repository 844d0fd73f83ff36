package agent

import (
	"testing"
	"time"
)

// TestWakesForAGroup: a raised group that uses less than its limit is checked with the work of once a second, and a group
// that bursts once a period.
func TestWakesForAGroup(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.workload(policy20)
		m.addGroup(app, "100000 100000")
		m.boot()
		m.run(10*time.Second, 0.05)
		wantQuota(t, m, "299998 100000")
		for _, c := range []struct {
			use         float64
			least, most int64
		}{{0.05, 10, 11}, {1.5, 85, 120}, {0.05, 10, 25}, {0.05, 10, 11}} {
			before := m.passes.Load()
			m.run(10*time.Second, c.use)
			if n := m.passes.Load() - before; n < c.least || n > c.most {
				t.Errorf("%d passes in 10 s of %g CPUs, want %d to %d", n, c.use, c.least, c.most)
			}
		}
		if err := m.stop(); err != nil {
			t.Error(err)
		}
	})
}
