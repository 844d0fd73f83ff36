package burst_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/unit"
)

func drawGroup(t *rapid.T) (burst.Policy, facts) {
	f := facts{
		Period: unit.Micros(rapid.SampledFrom([]int{1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 250_000, 1_000_000}).Draw(t, "period")),
		CPUs:   rapid.IntRange(1, 8).Draw(t, "cpus"),
		Slice:  unit.Micros(rapid.SampledFrom([]int{1000, 3000, 5000}).Draw(t, "slice")),
		Tick:   rapid.SampledFrom([]time.Duration{time.Millisecond, 4 * time.Millisecond, 10 * time.Millisecond}).Draw(t, "tick"),
	}
	most := f.Period * unit.Micros(f.CPUs)
	f.LimitQuota = unit.Micros(rapid.Int64Range(1000, max(1000, int64(most))).Draw(t, "quota"))
	p := burst.Policy{
		Quota: true, Kernel: rapid.Bool().Draw(t, "kernel"),
		QuotaPercent:  rapid.OneOf(rapid.IntRange(100, 400), rapid.IntRange(100, 10_000)).Draw(t, "quotaPercent"),
		KernelPercent: rapid.IntRange(0, 150).Draw(t, "kernelPercent"),
		PeriodSeconds: rapid.OneOf(rapid.IntRange(0, 5), rapid.IntRange(0, 60)).Draw(t, "periodSeconds"),
	}
	f.Burst = p.KernelBurst(f.LimitQuota)
	return p, f
}

func drawDemand(t *rapid.T, f facts, rng *rand.Rand) demand {
	k := rapid.IntRange(1, f.CPUs).Draw(t, "k")
	d := func(name string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Millisecond
	}
	switch rapid.IntRange(0, 6).Draw(t, "demand") {
	case 0:
		return always(k)
	case 1:
		return onOff(k, d("on", 1, 3000), d("off", 1, 3000))
	case 2:
		return whileRaised(k)
	case 3:
		return beforeLook(k, rapid.Float64Range(0, 1).Draw(t, "part"))
	case 4:
		return miser(k, d("after", 0, 3000))
	case 5:
		return flicker(rng, d("on", 1, 1000), d("off", 1, 1000))
	default:
		return idle()
	}
}

func drawLateness(t *rapid.T, rng *rand.Rand) func() time.Duration {
	jitter := rapid.SampledFrom([]time.Duration{0, 0, time.Millisecond, 20 * time.Millisecond, 300 * time.Millisecond}).Draw(t, "jitter")
	silence := rapid.SampledFrom([]time.Duration{0, 0, time.Second, 5 * time.Second}).Draw(t, "silence")
	return func() time.Duration {
		d := time.Duration(0)
		if jitter > 0 && rng.Float64() < 0.3 {
			d = time.Duration(rng.Int64N(int64(jitter)))
		}
		if silence > 0 && rng.Float64() < 0.005 {
			d += time.Duration(rng.Int64N(int64(silence)))
		}
		return d.Truncate(time.Millisecond)
	}
}

// TestBound: over every window, use exceeds the limit by no more than the law
// promises, whatever the group does and however late the looks are.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := newSim(p, f, rng)
		s.late = drawLateness(t, rng)
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			d := time.Duration(rapid.IntRange(100, 8000).Draw(t, "phase")) * time.Millisecond
			s.run(d, drawDemand(t, f, rng))
		}
		if s.lowest < f.LimitQuota {
			t.Fatalf("quota %d below the limit's %d", s.lowest, f.LimitQuota)
		}
		if bound := s.bound(s.lateness[0]); s.excess.most > bound {
			t.Fatalf("excess %.4f s over bound %.4f s (S %v, C %v)", s.excess.most/1e9, bound/1e9, s.lateness, p.Capacity(f.Limit()))
		}
	})
}
