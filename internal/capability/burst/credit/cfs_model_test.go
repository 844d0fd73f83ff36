package credit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// modelGroup returns a group for comparing the model with the observed behavior of the kernel.

func modelGroup(quota, period int64) *sim {
	f := facts{CPUs: 2, Slice: 5000, Tick: 4 * time.Millisecond}
	f.Period, f.LimitQuota = unit.Micros(period), unit.Micros(quota)
	return newSim(credit.Policy{}, f, rand.New(rand.NewPCG(7, 7)))
}

// TestModelHoldsTheQuota: without writes, the long-term mean equals the quota, and busy periods are throttled.
func TestModelHoldsTheQuota(t *testing.T) {
	s := modelGroup(50_000, 100_000)
	s.run(time.Minute, always(2))
	if mean := float64(s.usage) / float64(s.now); mean < 0.495 || mean > 0.505 {
		t.Errorf("mean %.4f of a quota of 0.5", mean)
	}
	if s.throttled < s.periods-2 {
		t.Errorf("%d of %d periods throttled", s.throttled, s.periods)
	}
}

// TestModelWriteRefills: each write of the same quota grants another quota. On the real kernel, writing 10 ms every 10
// ms instead of 100 ms gave 62 % of a CPU on a busy machine.
func TestModelWriteRefills(t *testing.T) {
	s := modelGroup(10_000, 100_000)
	for range 1000 {
		s.run(10*time.Millisecond, always(1))
		s.write(10_000)
	}
	if mean := float64(s.usage) / float64(s.now); mean < 0.5 {
		t.Errorf("mean %.4f under rewrites of a quota of 0.1", mean)
	}
}

// TestModelBurst: a later period can use what an idle period left, once.
func TestModelBurst(t *testing.T) {
	s := modelGroup(50_000, 100_000)
	s.burst = 50_000_000
	s.run(time.Second, idle())
	used := s.usage
	s.run(time.Minute, always(2))
	if over := float64(s.usage-used)/1e9 - 30; over < 0.05 || over > 0.2 {
		t.Errorf("%.3f CPU-seconds over 30, want about a burst and the period begun", over)
	}
}
