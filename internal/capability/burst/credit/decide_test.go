package credit_test

import (
	"encoding/json"
	"math"
	"math/big"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

var inf = unit.CPUs(math.Inf(1))

// usual returns a common policy and a group with 2 of 8 CPUs.
func usual() (credit.Policy, facts) {
	return credit.Policy{QuotaBurst: true, KernelBurst: true, QuotaPercent: 300, CPUBurstPercent: 1000, PeriodSeconds: 60}, facts{
		LimitQuota: 200_000, Period: 100_000, Standing: 200_000, CPUs: 8,
		Slice: 5000, Tick: 4 * time.Millisecond, Cap: inf, Ceiling: inf,
	}
}

func TestDecide(t *testing.T) {
	type want struct {
		Quota  unit.Micros
		Write  bool
		Reason credit.Reason
	}
	// Here C = 240, e = 0.072, R = 0.4 + e = 0.472, and E(50 ms) = 0.3 + 1.2 + e = 1.572. A raised quota therefore
	// needs 1.572 + 0.472 - 0.1 = 1.944, and raising it again needs 24 more.
	for _, c := range []struct {
		name   string
		change func(p *credit.Policy, f *facts, l *credit.Ledger)
		want   want
	}{
		{"full credit", nil, want{599_998, true, credit.AtCeiling}},
		{"standing already", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.Standing = 599_998 }, want{599_998, false, credit.AtCeiling}},
		{"credit just enough to stand", func(_ *credit.Policy, f *facts, l *credit.Ledger) {
			f.Standing, l.Raised, l.Credit = 599_998, true, 1.945
		}, want{599_998, false, credit.AtCeiling}},
		{"credit just too little", func(_ *credit.Policy, f *facts, l *credit.Ledger) {
			f.Standing, l.Raised, l.Credit = 599_998, true, 1.943
		}, want{200_000, true, credit.NoCredit}},
		{"a debt", func(_ *credit.Policy, _ *facts, l *credit.Ledger) { l.Credit = -3 }, want{200_000, false, credit.NoCredit}},
		{"recovering", func(_ *credit.Policy, _ *facts, l *credit.Ledger) { l.Credit, l.Lowered = 25.9, true }, want{200_000, false, credit.Recovering}},
		{"recovered", func(_ *credit.Policy, _ *facts, l *credit.Ledger) { l.Credit, l.Lowered = 26, true }, want{599_998, true, credit.AtCeiling}},
		{"put to the limit by a stranger while armed", func(_ *credit.Policy, _ *facts, l *credit.Ledger) {
			l.Credit, l.Raised = 2, true
		}, want{599_998, true, credit.AtCeiling}},
		{"lifted by a stranger", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.Standing = unit.NoLimit }, want{599_998, true, credit.AtCeiling}},
		{"put below the limit by a stranger", func(_ *credit.Policy, f *facts, l *credit.Ledger) {
			f.Standing, l.Credit = 100_000, 0.5
		}, want{200_000, true, credit.NoCredit}},
		{"put below the limit, nothing to pay the write", func(_ *credit.Policy, f *facts, l *credit.Ledger) {
			f.Standing, l.Credit = 100_000, 0.4
		}, want{200_000, false, credit.NoCredit}},
		{"no credit limit", func(p *credit.Policy, _ *facts, l *credit.Ledger) {
			p.PeriodSeconds, l.Credit = -1, -100
		}, want{599_998, true, credit.NoLimitOnCredit}},
		{"no credit at all", func(p *credit.Policy, _ *facts, _ *credit.Ledger) { p.PeriodSeconds = 0 }, want{200_000, false, credit.CreditTooSmall}},
		{"policy off", func(p *credit.Policy, _ *facts, _ *credit.Ledger) { p.QuotaBurst = false }, want{200_000, false, credit.Off}},
		{"policy went off", func(p *credit.Policy, f *facts, _ *credit.Ledger) { p.QuotaBurst, f.Standing = false, 599_998 }, want{200_000, true, credit.Off}},
		{"a BPF scheduler", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.SchedExt = "scx_rusty" }, want{200_000, false, credit.Unenforced}},
		{"a BPF scheduler came", func(_ *credit.Policy, f *facts, _ *credit.Ledger) {
			f.SchedExt, f.Standing = "scx_rusty", 599_998
		}, want{200_000, true, credit.Unenforced}},
		{"hundred percent", func(p *credit.Policy, _ *facts, _ *credit.Ledger) { p.QuotaPercent = 100 }, want{200_000, false, credit.NothingToGain}},
		{"limit of all CPUs", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.CPUs = 2 }, want{200_000, false, credit.NothingToGain}},
		{"no limit", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.LimitQuota, f.Standing = -1, -1 }, want{-1, false, credit.Incomplete}},
		{"no CPUs known", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.CPUs = 0 }, want{200_000, false, credit.Incomplete}},
		{"ancestor with less", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.Cap = 1 }, want{200_000, false, credit.AncestorCap}},
		{"ancestor in between", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.Cap = 2.5 }, want{249_998, true, credit.AncestorCapped}},
		{"guard leaves nothing", func(_ *credit.Policy, f *facts, _ *credit.Ledger) {
			f.Ceiling, f.Standing = 2, 599_998
		}, want{200_000, true, credit.GuardFull}},
		{"guard leaves some", func(_ *credit.Policy, f *facts, _ *credit.Ledger) { f.Ceiling = 3.5 }, want{349_998, true, credit.GuardCapped}},
		{"guard leaves all", func(p *credit.Policy, f *facts, _ *credit.Ledger) { f.Ceiling = p.Ceiling(f.Limit()) }, want{599_998, true, credit.AtCeiling}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, f := usual()
			l := credit.Open(p, f, false)
			if c.change != nil {
				c.change(&p, &f, &l)
			}
			after, d := credit.Decide(p, l, f, 100*time.Millisecond)
			if diff := cmp.Diff(c.want, want{d.Quota, d.Write, d.Reason}); diff != "" {
				t.Errorf("decision (-want +got):\n%s%+v", diff, d)
			}
			if after.Raised != d.Reason.Raised() {
				t.Errorf("raised %v after %v", after.Raised, d.Reason)
			}
		})
	}
}

// A look without a known limit costs no credit. The next look charges the use.
func TestUnknownLimitCutsNothing(t *testing.T) {
	p, f := usual()
	l := credit.Open(p, f, false)
	l.Credit = 100
	for range 3 {
		f.At, f.Usage = f.At+time.Second, f.Usage+unit.CPUSeconds(1).Time()
		known := f.LimitQuota
		f.LimitQuota = 0
		var d credit.Decision
		if l, d = credit.Decide(p, l, f, 0); d.Write || d.Reason != credit.Incomplete {
			t.Errorf("without a limit: %+v", d)
		}
		f.LimitQuota = known
	}
	if l = l.Advance(f, p); l.Credit != 100+3*2-3 {
		t.Errorf("credit %v, want 103", l.Credit)
	}
}

// TestNextLook: the next look comes after the requested cadence, within 50 ms and a second, but before the credit could
// fall into the reserve.
func TestNextLook(t *testing.T) {
	for _, c := range []struct {
		credit          unit.CPUSeconds
		cadence, expect time.Duration
	}{
		{240, 100 * time.Millisecond, 100 * time.Millisecond},
		{240, 0, credit.MinLook},
		{240, time.Hour, credit.MaxLook},
		// A look at once needs 1.744, and every second later needs 4 more.
		{3.744, time.Hour, 500 * time.Millisecond},
		{1.945, time.Hour, 50250 * time.Microsecond},
		{0, time.Hour, credit.MaxLook},
	} {
		p, f := usual()
		l := credit.Open(p, f, false)
		l.Credit = c.credit
		_, d := credit.Decide(p, l, f, c.cadence)
		if off := d.Next - c.expect; off < -5*time.Microsecond || off > 5*time.Microsecond {
			t.Errorf("credit %v, cadence %v: next look in %v, want %v", c.credit, c.cadence, d.Next, c.expect)
		}
	}
}

// TestNumbers: the numbers that explain prints match the package comment.
func TestNumbers(t *testing.T) {
	p, f := usual()
	f.Burst = p.Burst(f.LimitQuota)
	_, d := credit.Decide(p, credit.Open(p, f, false), f, 100*time.Millisecond)
	near := func(name string, got, want unit.CPUSeconds) {
		t.Helper()
		if math.Abs(float64(got-want)) > 1e-9 {
			t.Errorf("%s %v, want %v", name, got, want)
		}
	}
	near("C", d.Capacity, 240)
	near("R", d.Reserve, 0.4+0.2+0.072)
	near("E", d.Exposure, 0.599998+1.199996+0.2+0.072)
	f.CPUs = 5
	_, d = credit.Decide(p, credit.Open(p, f, false), f, 100*time.Millisecond)
	near("E of a quota above all CPUs", d.Exposure, 0.5+0.045)
}

func TestReasonNames(t *testing.T) {
	seen := map[string]bool{}
	for r := credit.Unset; r <= credit.Recovering; r++ {
		if name := r.String(); seen[name] || name == "" {
			t.Errorf("reason %d has the name %q", r, name)
		} else {
			seen[name] = true
		}
	}
	if got := credit.Reason(99).String(); got != "Reason(99)" {
		t.Errorf("got %q", got)
	}
}

// TestKernelBurst: the burst never exceeds the limit's quota, so no order of writes meets EINVAL.
func TestKernelBurst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := credit.Policy{KernelBurst: rapid.Bool().Draw(t, "kernel"), CPUBurstPercent: rapid.Int64Range(-5, 20_000).Draw(t, "percent")}
		quota := unit.Micros(rapid.Int64Range(-1, 1<<40).Draw(t, "quota"))
		got := p.Burst(quota)
		if got < 0 || got > max(quota, 0) || !p.KernelBurst && got != 0 {
			t.Fatalf("burst %d for a quota of %d", got, quota)
		}
		if p.KernelBurst && p.CPUBurstPercent >= 100 && got != max(quota, 0) {
			t.Fatalf("burst %d for a quota of %d", got, quota)
		}
	})
}

// TestTargetRange: the target respects the ceiling, the cap and the guard, and is not below the limit. Together with
// the burst it is within the kernel's maximum.
func TestTargetRange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		f.LimitQuota *= unit.Micros(rapid.SampledFrom([]int{1, 1, 1, 1 << 10}).Draw(t, "scale"))
		f.Cap = unit.CPUs(rapid.OneOf(rapid.Float64Range(0, 2000), rapid.Just(math.Inf(1))).Draw(t, "cap"))
		f.Ceiling = unit.CPUs(rapid.OneOf(rapid.Float64Range(0, 2000), rapid.Just(math.Inf(1))).Draw(t, "ceiling"))
		got, _ := f.Target(p)
		most := min(float64(f.LimitQuota)*float64(max(p.QuotaPercent, 100))/100,
			float64(f.Cap)*float64(f.Period), float64(f.Ceiling)*float64(f.Period))
		if got < f.LimitQuota || got > f.LimitQuota && float64(got) > most*(1+1e-12)+1e-6 || got+f.Burst > 1<<44-1 {
			t.Fatalf("target %d of at most %v, limit %d", got, most, f.LimitQuota)
		}
		if got > f.LimitQuota && float64(got) < most-5.001 {
			t.Fatalf("target %d of %v", got, most)
		}
	})
}

// TestCredit compares the account with exact fractions.
func TestCredit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p, f := drawGroup(t)
		f.Standing = f.LimitQuota
		l := credit.Open(p, f, false)
		ratio := big.NewRat(int64(f.LimitQuota), int64(f.Period))
		c := new(big.Rat).Mul(ratio, big.NewRat(p.PeriodSeconds*(p.QuotaPercent-100), 100))
		r := big.NewRat(2*int64(f.LimitQuota)+int64(f.Burst)+int64(f.CPUs)*(int64(f.Slice)+f.Tick.Microseconds()), 1_000_000)
		want := new(big.Rat).Set(c)
		for range rapid.IntRange(1, 50).Draw(t, "looks") {
			passed := rapid.Int64Range(0, 3e9).Draw(t, "passed")
			used := rapid.Int64Range(0, passed*int64(f.CPUs)).Draw(t, "used")
			f.At += time.Duration(passed)
			f.Usage += unit.CPUTime(used)
			raised := rapid.Bool().Draw(t, "raised")
			if f.Standing = f.LimitQuota; raised {
				f.Standing++
			}
			l = l.Advance(f, p)
			if again := l.Advance(f, p); again != l {
				t.Fatalf("advanced twice: %+v, %+v", l, again)
			}

			out := big.NewRat(used, 1e9)
			want.Add(want, new(big.Rat).Mul(ratio, big.NewRat(passed, 1e9)))
			want.Sub(want, out)
			surge := out
			for _, most := range []*big.Rat{c, r} {
				if (most == c || !raised) && surge.Cmp(most) > 0 {
					surge = most
				}
			}
			if cut := new(big.Rat).Sub(c, surge); passed > 0 && want.Cmp(cut) > 0 {
				want = cut
			}
			exact, _ := want.Float64()
			if math.Abs(float64(l.Credit)-exact) > 1e-6 {
				t.Fatalf("credit %v, want %v", l.Credit, exact)
			}
		}
	})
}

func TestLedgerAtTheEdges(t *testing.T) {
	p, f := usual()
	full := credit.Open(p, f, false)
	if full.Credit != 240 || full.Lowered {
		t.Errorf("opened at %+v", full)
	}
	if found := credit.Open(p, f, true); found.Credit != 0 || !found.Lowered {
		t.Errorf("found raised: %+v", found)
	}
	at := func(l credit.Ledger, change func(f *facts)) unit.CPUSeconds {
		_, f := usual()
		f.At, f.Usage = 10*time.Second, 5e9
		change(&f)
		return l.Advance(f, p).Credit
	}
	half := credit.Ledger{Credit: 100, Usage: 4e9, At: 9 * time.Second, Limit: 2}
	for _, c := range []struct {
		name   string
		change func(f *facts)
		want   unit.CPUSeconds
	}{
		{"a second at half the limit", func(*facts) {}, 101},
		{"the clock went back", func(f *facts) { f.At = time.Second }, 99},
		{"the counter went back", func(f *facts) { f.Usage = 1e9 }, 99},
		{"the limit grew", func(f *facts) { f.LimitQuota = 400_000 }, 101},
		{"the limit shrank", func(f *facts) { f.LimitQuota = 100_000 }, 100},
		{"the limit went", func(f *facts) { f.LimitQuota = -1 }, 0},
	} {
		if got := at(half, c.change); got != c.want {
			t.Errorf("%s: credit %v, want %v", c.name, got, c.want)
		}
	}
	text, err := json.Marshal(half)
	if err != nil {
		t.Fatal(err)
	}
	var back credit.Ledger
	if err := json.Unmarshal(text, &back); err != nil || back != half {
		t.Errorf("%s came back as %+v: %v", text, back, err)
	}
}

// TestSilence: an agent that was away for an hour finds no debt, with the quota at the limit or above it.
func TestSilence(t *testing.T) {
	p, f := usual()
	for _, standing := range []unit.Micros{200_000, 599_998} {
		l := credit.Open(p, f, false)
		f.At, f.Usage, f.Standing = time.Hour, 1.8*3600e9, standing
		if got := l.Advance(f, p).Credit; got < 0 || standing == 200_000 && got < 239 {
			t.Errorf("quota %d: credit %v after an hour at 0.9 of the limit", standing, got)
		}
	}
}

// TestNoAllocation: a look allocates nothing.
func TestNoAllocation(t *testing.T) {
	p, f := usual()
	l := credit.Open(p, f, false)
	if n := testing.AllocsPerRun(100, func() {
		f.At += 100 * time.Millisecond
		l, _ = credit.Decide(p, l, f, 100*time.Millisecond)
	}); n != 0 {
		t.Errorf("%v allocations a look", n)
	}
}

func BenchmarkDecide(b *testing.B) {
	p, f := usual()
	l := credit.Open(p, f, false)
	b.ReportAllocs()
	for b.Loop() {
		f.At += 100 * time.Millisecond
		f.Usage += 10e6
		l, _ = credit.Decide(p, l, f, 100*time.Millisecond)
	}
}
