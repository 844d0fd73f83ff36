package credit_test

import (
	"math/rand/v2"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

func drawGroup(t *rapid.T) (credit.Policy, facts) {
	f := facts{
		Period: unit.Micros(rapid.SampledFrom([]int{1000, 2000, 5000, 10_000, 20_000, 50_000, 100_000, 250_000, 1_000_000}).Draw(t, "period")),
		CPUs:   rapid.IntRange(1, 8).Draw(t, "cpus"),
		Slice:  unit.Micros(rapid.SampledFrom([]int{1000, 3000, 5000}).Draw(t, "slice")),
		Tick:   rapid.SampledFrom([]time.Duration{time.Millisecond, 4 * time.Millisecond, 10 * time.Millisecond}).Draw(t, "tick"),
	}
	most := f.Period * unit.Micros(f.CPUs)
	f.LimitQuota = unit.Micros(rapid.Int64Range(1000, max(1000, int64(most))).Draw(t, "quota"))
	p := credit.Policy{
		QuotaBurst: true, KernelBurst: rapid.Bool().Draw(t, "kernel"),
		QuotaPercent:    rapid.OneOf(rapid.Int64Range(100, 400), rapid.Int64Range(100, 10_000)).Draw(t, "quotaPercent"),
		CPUBurstPercent: rapid.Int64Range(0, 150).Draw(t, "kernelPercent"),
		PeriodSeconds:   rapid.OneOf(rapid.Int64Range(0, 5), rapid.Int64Range(0, 60)).Draw(t, "periodSeconds"),
	}
	f.Burst = p.Burst(f.LimitQuota)
	return p, f
}

func drawDemand(t *rapid.T, f facts, rng *rand.Rand) demand {
	k := rapid.IntRange(1, f.CPUs).Draw(t, "k")
	d := func(name string, lo, hi int) time.Duration {
		return time.Duration(rapid.IntRange(lo, hi).Draw(t, name)) * time.Millisecond
	}
	switch rapid.IntRange(0, 8).Draw(t, "demand") {
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
	case 6:
		return idle()
	default:
		return striker(rapid.Float64Range(0, 0.05).Draw(t, "margin"), d("rest", 100, 3000))
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

// guarded is the law under a node guard's ceiling, which moves at the given share of the looks. That is more often than
// the real guard moves it.
func guarded(moves float64, rng *rand.Rand) law {
	part := 1.0
	return func(p credit.Policy, l credit.Ledger, f credit.Facts, cadence time.Duration) (credit.Ledger, credit.Decision) {
		if rng.Float64() < moves {
			part = max(rng.Float64()*1.5-0.25, 0)
		}
		if part < 1 {
			f.Ceiling = f.Limit() + unit.CPUs(part)*(p.Ceiling(f.Limit())-f.Limit())
		}
		return credit.Decide(p, l, f, cadence)
	}
}

// TestBound: over every window, use exceeds the limit by no more than the law promises. That holds for any load, any
// lateness of the looks and any ceiling of the node guard. The quota is never below the limit or the burst.
func TestBound(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := newSim(p, f, rng)
		s.late = drawLateness(t, rng)
		s.stay = int64(time.Duration(rapid.OneOf(rapid.Just(0), rapid.IntRange(1, 100), rapid.IntRange(1, 10_000)).Draw(t, "stay")) * time.Millisecond)
		s.law = guarded(rapid.SampledFrom([]float64{0, 0.01, 0.3}).Draw(t, "moves"), rng)
		for range rapid.IntRange(1, 6).Draw(t, "phases") {
			d := time.Duration(rapid.IntRange(100, 8000).Draw(t, "phase")) * time.Millisecond
			s.run(d, drawDemand(t, f, rng))
		}
		if s.lowest < max(f.LimitQuota, f.Burst) {
			t.Fatalf("quota %d below the limit's %d or the burst %d", s.lowest, f.LimitQuota, f.Burst)
		}
		if bound := s.bound(); s.excess.most > bound {
			t.Fatalf("excess %.4f s over bound %.4f s (S %v, C %v)",
				s.excess.most/1e9, bound/1e9, s.lateness, p.Capacity(f.Limit()))
		}
	})
}

// worstStrike returns by how many CPU-seconds the striker exceeds the bound.
func worstStrike(decide law, n int, percent, seconds int64, late time.Duration) float64 {
	worst := -1e18
	for seed := range uint64(12) {
		p := credit.Policy{QuotaBurst: true, QuotaPercent: percent, PeriodSeconds: seconds}
		f := facts{Period: 1_000_000, LimitQuota: 1_000_000, CPUs: n, Slice: 1000, Tick: time.Millisecond}
		rng := rand.New(rand.NewPCG(seed, 1))
		s := newSim(p, f, rng)
		s.law, s.late = decide, func() time.Duration { return late }
		s.run(30*time.Second, striker(rng.Float64()*0.01, time.Second))
		worst = max(worst, s.excess.most-s.bound())
	}
	return worst / 1e9
}

// TestStriker: a group that knows the law and the kernel stays within the bound. It exceeds the bound as soon as one
// part of the law is missing. So each part is needed, and the model can detect its absence.
func TestStriker(t *testing.T) {
	for _, c := range []struct {
		name             string
		n                int
		percent, seconds int64
		late             time.Duration
		wrong            variant
	}{
		{"nothing reserved", 20, 2000, 1, 0, variant{noReserve: true}},
		{"cut after the use", 20, 2000, 1, 100 * time.Millisecond, variant{cutAfter: true}},
		{"exposed only until the look is due", 40, 1000, 4, 100 * time.Millisecond, variant{lookOnly: true}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if over := worstStrike(credit.Decide, c.n, c.percent, c.seconds, c.late); over > 0 {
				t.Errorf("the law: %.3f CPU-seconds over the bound", over)
			}
			if over := worstStrike(c.wrong.decide, c.n, c.percent, c.seconds, c.late); over <= 0 {
				t.Errorf("without the part: %.3f CPU-seconds, within the bound", over)
			}
		})
	}
}

// TestKernelMode: throttled threads that continue in kernel mode exceed the bound by X with the limit alone. If the
// quota moves, they exceed it by twice that: before the quota is lowered, and afterwards. The kernel remembers their
// debt until the next write, and the account from then on.
func TestKernelMode(t *testing.T) {
	over := func(p credit.Policy, decide law, work func(*rand.Rand) demand) float64 {
		worst := -1e18
		for seed := range uint64(3) {
			f := facts{Period: 20_000, LimitQuota: 20_000, CPUs: 60, Slice: 1000, Tick: time.Millisecond}
			rng := rand.New(rand.NewPCG(seed, 1))
			s := newSim(p, f, rng)
			s.law, s.stay = decide, int64(45*time.Millisecond)
			s.run(30*time.Second, work(rng))
			worst = max(worst, (s.excess.most-s.bound())/s.inKernelMode()+2)
		}
		return worst
	}
	strike := func(rng *rand.Rand) demand { return striker(rng.Float64()*0.01, time.Second) }
	p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 10}
	if x := over(credit.Policy{}, credit.Decide, func(*rand.Rand) demand { return onOff(60, time.Second, time.Second) }); x < 0.5 || x > 1 {
		t.Errorf("the limit alone: %.2f X over the bound without X", x)
	}
	if x := over(p, credit.Decide, strike); x < 1 || x > 2 {
		t.Errorf("the law: %.2f X over the bound without X", x)
	}
	if x := over(p, variant{clamped: true}.decide, strike); x <= 2 {
		t.Errorf("debts that are forgotten at a write: %.2f X, within the bound", x)
	}
}

// secondReading compares the law at each look with a plain implementation. The two add in a different order, so their
// last bits differ. If the law compares values that are equal up to these bits, each may choose the limit or the
// target, but nothing else.
func secondReading(t rapid.TB) law {
	near := func(a, b unit.CPUSeconds) bool { return a-b <= 1e-9 && b-a <= 1e-9 }
	return func(p credit.Policy, l credit.Ledger, f credit.Facts, cadence time.Duration) (credit.Ledger, credit.Decision) {
		got, d := credit.Decide(p, l, f, cadence)
		want, plain := variant{}.decide(p, l, f, cadence)
		if !near(got.Credit, want.Credit) {
			t.Fatalf("credit %v, want %v", got.Credit, want.Credit)
		}
		// d.Needed is the credit that the decision requires from now on, not the credit that this look required.
		stand := plain.Needed
		raise := stand + d.Capacity/10
		asked := stand
		if l.Lowered {
			asked = raise
		}
		even := near(got.Credit, asked) || near(d.Capacity, raise)
		if d.Quota != plain.Quota && (!even || d.Quota != f.LimitQuota && d.Quota != d.Target) {
			t.Fatalf("quota %d (%v), want %d; credit %v", d.Quota, d.Reason, plain.Quota, got.Credit)
		}
		// The law truncates the time to nanoseconds, and the plain implementation to milliseconds.
		if off := d.Next - plain.Next; d.Quota == plain.Quota && d.Reason.Raised() &&
			(off < -time.Microsecond || off > 2*time.Millisecond) {
			t.Fatalf("next look in %v, want %v", d.Next, plain.Next)
		}
		return got, d
	}
}

// TestSecondReading compares the law with its plain implementation for random groups.
func TestSecondReading(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		s := newSim(p, f, rng)
		s.late, s.law = drawLateness(t, rng), secondReading(t)
		s.run(5*time.Second, drawDemand(t, f, rng))
		s.run(5*time.Second, drawDemand(t, f, rng))
	})
}

// TestSecondReadingEven compares them for equal values, which random draws seldom produce.
func TestSecondReadingEven(t *testing.T) {
	for _, c := range []struct {
		name                     string
		percent, kernel, seconds int64
		period, quota, slice     unit.Micros
		cpus                     int
		tick                     time.Duration
		work                     demand
	}{
		// L = 0.5, R = 0.03703, E(50 ms) = 0.06797: to stay raised needs 0.08, which is left at 0.65 s.
		{"credit to stand", 122, 3, 1, 2000, 1000, 1000, 7, 4 * time.Millisecond, whileRaised(1)},
		{"credit to be raised again", 122, 0, 1, 5000, 6250, 3000, 6, 10 * time.Millisecond, onOff(6, 100*time.Millisecond, 400*time.Millisecond)},
		{"a full account to be raised", 110, 50, 1, 10_000, 20_000, 1000, 3, 10 * time.Millisecond, idle()},
		{"a look after whole milliseconds", 200, 0, 7, 1_000_000, 125_000, 1000, 1, 4 * time.Millisecond, idle()},
		{"a ceiling of all CPUs", 150, 0, 1, 100_000, 200_000, 1000, 3, 4 * time.Millisecond, idle()},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := credit.Policy{QuotaBurst: true, KernelBurst: true, QuotaPercent: c.percent, CPUBurstPercent: c.kernel, PeriodSeconds: c.seconds}
			f := facts{Period: c.period, LimitQuota: c.quota, CPUs: c.cpus, Slice: c.slice, Tick: c.tick}
			f.Burst = p.Burst(f.LimitQuota)
			s := newSim(p, f, rand.New(rand.NewPCG(0, 1)))
			s.law = secondReading(t)
			s.run(5*time.Second, c.work)
		})
	}
}

// TestAbusers: a group demands at least one and a half times its limit. Once its credit is gone, it gets at most a
// hundredth above its limit over a minute, plus the kernel-mode time of its throttled threads. It also cannot make the
// law write all the time.
func TestAbusers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "k")
		most, work := 1.0, always(k) // the mean demand of one thread
		kind := rapid.SampledFrom([]string{"always on", "on and off", "busy only while raised"}).Draw(t, "kind")
		switch kind {
		case "on and off":
			most, work = 0.6, onOff(k, 3*time.Second, 2*time.Second)
		case "busy only while raised":
			work = whileRaised(k)
		}
		limit := rapid.Float64Range(0.2, most/1.5).Draw(t, "limit") * float64(k)
		f := facts{Period: 100_000, CPUs: 4, Slice: 5000, Tick: 4 * time.Millisecond}
		f.LimitQuota = unit.CPUs(limit).Quota(f.Period)
		p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 10}
		s := newSim(p, f, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		s.stay = int64(rapid.SampledFrom([]time.Duration{0, 0, 20 * time.Millisecond, time.Second}).Draw(t, "stay"))
		for s.goneAt == 0 && s.now < int64(5*time.Minute) {
			s.run(10*time.Millisecond, work)
		}
		before, from, used := s.writes, s.now, s.usage
		s.run(time.Minute, work)
		once := 2 * s.inKernelMode() / float64(time.Minute)
		if mean := float64(s.usage-used) / float64(s.now-from); mean > 1.01*limit+once {
			t.Errorf("mean %.4f of a limit of %.4f and %.4f once in kernel mode", mean, limit, once)
		}
		allowed := 2
		if kind != "always on" { // up and down each time the account gains a tenth of C
			allowed += int(2 * 60 / (0.1 * float64(p.Capacity(f.Limit())) / limit))
		}
		if writes := s.writes - before; writes > allowed {
			t.Errorf("%d writes in a minute, %d allowed", writes, allowed)
		}
	})
}

// TestForgottenDebt shows why the account needs debts. If a debt is forgotten and any credit suffices to stay raised,
// the writes themselves feed the abuser.
func TestForgottenDebt(t *testing.T) {
	f := facts{Period: 100_000, LimitQuota: 50_000, CPUs: 4, Slice: 5000, Tick: 4 * time.Millisecond}
	p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 10}
	mean := func(v variant) float64 {
		s := newSim(p, f, rand.New(rand.NewPCG(1, 1)))
		s.law = v.decide
		s.run(30*time.Second, always(4))
		used := s.usage
		s.run(time.Minute, always(4))
		return float64(s.usage-used) / float64(time.Minute) / 0.5
	}
	if got := mean(variant{clamped: true}); got < 1.05 {
		t.Errorf("forgotten debts: mean %.3f of the limit", got)
	}
	if got := mean(variant{}); got > 1.01 {
		t.Errorf("carried debts: mean %.3f of the limit", got)
	}
}

// TestCalm: a group with a mean below its limit is never throttled while its credit lasts, and nothing is written after
// the first look.
func TestCalm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		k := rapid.IntRange(1, 4).Draw(t, "k")
		f := facts{Period: 100_000, CPUs: 4, Slice: 5000, Tick: 4 * time.Millisecond}
		f.LimitQuota = unit.CPUs(0.5 * float64(k)).Quota(f.Period)
		p := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 60}
		s := newSim(p, f, rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)))
		on := time.Duration(rapid.IntRange(10, 5000).Draw(t, "on")) * time.Millisecond
		s.run(60*time.Second, onOff(k, on, on+on/4))
		if s.throttled != 0 || s.writes != 1 {
			t.Errorf("%d of %d periods throttled, %d writes", s.throttled, s.periods, s.writes)
		}
	})
}
