package credit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func TestBesideIsChargedOnce(t *testing.T) {
	p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 20}
	f := facts{Period: 100_000, LimitQuota: 50_000, Standing: 50_000, CPUs: 4, Slice: 5000, Tick: 4 * time.Millisecond}
	l := credit.Open(p, f, false) // 20 CPU-seconds
	for _, step := range []struct {
		name   string
		beside unit.CPUTime
		want   unit.CPUSeconds
	}{
		{"used beside it", 4e9, 16},
		{"the same facts", 4e9, 16},
		{"a counter that begins again", 1e9, 15},
	} {
		f.Beside.Usage = step.beside
		f.Standing = f.LimitQuota * 3
		if l = l.Advance(f, p); l.Credit != step.want {
			t.Errorf("%s: credit %v, want %v", step.name, l.Credit, step.want)
		}
	}
}

// inPod turns the simulated group into a pod whose own limit is the limit of its one bursting container. The container
// is idle, and a group without a limit makes all use. The law moves both quotas. known says whether the law also learns
// what the other group can use, and not only its past use.
func inPod(p credit.Policy, known bool) law {
	standing := unit.Micros(0)
	return func(_ credit.Policy, l credit.Ledger, f credit.Facts, cadence time.Duration) (credit.Ledger, credit.Decision) {
		if standing == 0 {
			standing = f.LimitQuota
		}
		f.Beside.Usage, l.Beside = f.Usage, l.Usage
		f.Usage, l.Usage, f.Standing = 0, 0, standing
		if known {
			f.Beside.CPUs, f.Beside.Quota = f.CPUs, f.LimitQuota
		}
		l, d := credit.Decide(p, l, f, cadence)
		l.Usage = l.Beside
		if d.Write {
			standing = d.Quota
		}
		if d.Quota > f.LimitQuota {
			d.Quota = 2 * f.LimitQuota * unit.Micros(p.QuotaPercent) / 100
		}
		return l, d
	}
}

// boundOfPod returns the law's promise for a pod with a group without a limit, in CPU-nanoseconds.
func (s *sim) boundOfPod() float64 {
	f := s.facts
	f.Beside = credit.Beside{CPUs: f.CPUs, Quota: f.LimitQuota}
	return s.boundOf(f)
}

// TestBoundOfPod: over every window, the excess of a pod with an unlimited group stays within its account.
func TestBoundOfPod(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		p.KernelBurst, f.Burst = false, 0
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := newSim(p, f, rng)
		s.late, s.law = drawLateness(t, rng), inPod(p, true)
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			d := time.Duration(rapid.IntRange(100, 8000).Draw(t, "phase")) * time.Millisecond
			s.run(d, drawDemand(t, f, rng))
		}
		if bound := s.boundOfPod(); s.excess.most > bound {
			t.Fatalf("excess %.4f s over bound %.4f s (S %v, C %v)",
				s.excess.most/1e9, bound/1e9, s.lateness, p.Capacity(f.Limit()))
		}
	})
}

// TestBesideIsExposed: it is not enough to charge the past use of an unlimited group. The group can use all CPUs of the
// node until the next look, and the account must cover that.
func TestBesideIsExposed(t *testing.T) {
	worst := func(known bool) float64 {
		worst := -1e18
		for seed := range uint64(12) {
			p := credit.Policy{QuotaBurst: true, QuotaPercent: 3000, PeriodSeconds: 1}
			f := facts{Period: 10_000, LimitQuota: 10_000, CPUs: 64, Slice: 1000, Tick: time.Millisecond}
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newSim(p, f, rng)
			s.cadence, s.law = time.Second, inPod(p, known)
			s.run(30*time.Second, striker(rng.Float64()*0.01, time.Second))
			worst = max(worst, s.excess.most-s.boundOfPod())
		}
		return worst / 1e9
	}
	if over := worst(true); over > 0 {
		t.Errorf("%.3f CPU-seconds over the bound", over)
	}
	if over := worst(false); over <= 0 {
		t.Errorf("charged only: %.3f CPU-seconds, within the bound", over)
	}
}
