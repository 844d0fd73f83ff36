package burst_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestCadence checks the intervals of samples. For a raised, quiet group the interval doubles each time, up to MaxLook;
// a group at its limit or at work is sampled once per period.
func TestCadence(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what     string
		period   unit.Micros
		standing unit.Micros
		used     time.Duration
		want     []time.Duration
	}{
		{"raised and quiet", 100000, 150000, ms, []time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, time.Second, time.Second}},
		{"raised and at work", 100000, 150000, 50 * ms, []time.Duration{100 * ms, 100 * ms}},
		{"at the limit", 100000, 50000, ms, []time.Duration{100 * ms, 100 * ms}},
		{"a period below MinLook", 10000, 5000, 0, []time.Duration{credit.MinLook, credit.MinLook}},
		{"the longest period", 1000000, 500000, 0, []time.Duration{credit.MaxLook}},
	} {
		g := container("app", c.standing)
		g.Facts.Period, g.Facts.LimitQuota = c.period, c.period/2
		g.Policy.PeriodSeconds = -1 // the credit shortens nothing
		g.Open()
		for i, want := range c.want {
			g.Decide(unit.CPUTime(c.used))
			if g.Decision.Next != want {
				t.Errorf("%s: look %d after %s, want %s", c.what, i, g.Decision.Next, want)
			}
		}
	}
}

func TestMayBeThrottled(t *testing.T) {
	for _, c := range []struct {
		standing unit.Micros
		used     time.Duration
		want     bool
	}{
		{150000, 25 * time.Millisecond, true},
		{150000, 24 * time.Millisecond, false},
		{50000, time.Second, false}, // the counters are read every few seconds anyway
	} {
		if got := container("app", c.standing).MayBeThrottled(unit.CPUTime(c.used)); got != c.want {
			t.Errorf("at %d after %s: %v", c.standing, c.used, got)
		}
	}
}

// TestPeak checks that the peak is the highest use within a period rather than the mean, without readings over less
// than a period. Every reader gets the peak for a minute.
func TestPeak(t *testing.T) {
	g := container("app", 50000)
	g.Begin(time.Second, unit.CPUTime(time.Hour))
	usage := time.Hour
	for _, step := range []struct{ after, used time.Duration }{
		{100 * time.Millisecond, 0},
		{100 * time.Millisecond, 150 * time.Millisecond},
		{10 * time.Millisecond, 80 * time.Millisecond},
		{90 * time.Millisecond, 0},
	} {
		usage += step.used
		if used := g.Look(g.Facts.At+step.after, unit.CPUTime(usage)); used.Duration() != step.used {
			t.Errorf("used %s, want %s", used.Duration(), step.used)
		}
	}
	for _, idle := range []time.Duration{0, time.Second, 50 * time.Second} {
		g.Look(g.Facts.At+idle, unit.CPUTime(usage))
		if got := g.Peak(); math.Abs(got-3) > 1e-9 {
			t.Errorf("peak %v, want 3 times the limit for each reader of a minute", got)
		}
	}
	g.Look(g.Facts.At+15*time.Second, unit.CPUTime(usage))
	if got := g.Peak(); got != 0 {
		t.Errorf("peak %v more than a minute after it", got)
	}
}

// TestEstimate checks the limit that a group needs. Without a burst, a group that uses 1.5 CPUs for a tenth of the time
// needs a limit of 1.5. With a burst it needs a third of that, or slightly more than the mean, or what one raise must
// reserve.
func TestEstimate(t *testing.T) {
	const ms = time.Millisecond
	for _, c := range []struct {
		what   string
		busy   time.Duration // in each second, at 1.5 CPUs
		change func(*burst.Group)
		want   *burst.Estimate
	}{
		{"short bursts", 100 * ms, func(*burst.Group) {}, &burst.Estimate{WithBurst: 0.5, Without: 1.5}},
		{"the mean counts", 400 * ms, func(*burst.Group) {}, &burst.Estimate{WithBurst: 0.66, Without: 1.5}},
		{"a higher ceiling", 100 * ms, func(g *burst.Group) { g.Policy.QuotaPercent = 1000 }, &burst.Estimate{WithBurst: 0.17, Without: 1.5}},
		{"busy always", time.Second, func(*burst.Group) {}, nil},
		{"idle", 0, func(*burst.Group) {}, nil},
		{"held by the node guard", 100 * ms, func(g *burst.Group) { g.Facts.Ceiling = 1.4 }, nil},
		{"at its limit", 100 * ms, func(g *burst.Group) { g.Policy.QuotaBurst = false }, nil},
		{"credit has to pay for one raise", 100 * ms, func(g *burst.Group) {
			g.Policy.PeriodSeconds, g.Policy.QuotaPercent = 1, 1000
			g.Facts.LimitQuota, g.Facts.Slice = 60000, 1000000
		}, &burst.Estimate{WithBurst: 0.52, Without: 1.5}},
	} {
		g := container("app", 150000)
		g.Policy.PeriodSeconds, g.Facts.CPUs, g.Facts.Ceiling, g.Facts.Cap = 60, 2, unit.CPUs(math.Inf(1)), unit.CPUs(math.Inf(1))
		c.change(g)
		g.Open()
		g.Begin(time.Second, 0)
		usage := time.Duration(0)
		for at := time.Second; at < 50*time.Second; at += 100 * ms {
			if at%time.Second < c.busy {
				usage += 150 * ms
			}
			g.Decide(g.Look(at+100*ms, unit.CPUTime(usage)))
			g.Ledger.Credit = g.Decision.Capacity
			if at < 40*time.Second && g.Estimate() != nil {
				t.Fatalf("%s: an estimate after %s", c.what, at)
			}
		}
		if diff := cmp.Diff(c.want, g.Estimate()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestKernelBurstShrinksForASmallerSpec(t *testing.T) {
	for _, c := range []struct {
		spec unit.CPUs
		want unit.Micros
	}{{0, 50000}, {0.25, 25000}, {2, 50000}} {
		g := saver("app")
		g.Spec = c.spec
		if got := g.KernelBurst(); got != c.want || !g.Saves() {
			t.Errorf("spec %v: %d, want %d", c.spec, got, c.want)
		}
	}
}

// TestYield checks that an announced resize lowers quota and burst to values where the owner can write. It ends with
// the new limit or after YieldFor.
func TestYield(t *testing.T) {
	for _, end := range []string{"the new limit stands", "it never comes"} {
		g := saver("app")
		g.Policy.QuotaBurst = true
		g.Facts.Standing, g.Facts.Burst = 150000, 50000
		quota, kernel := g.Yield(time.Hour)
		if !quota || !kernel || g.Decision.Quota != 50000 || g.KernelBurst() != 0 || g.Facts.Ceiling != 0.5 {
			t.Fatalf("%s: %v, %v, %+v", end, quota, kernel, g.Decision)
		}
		g.Facts.Standing = 50000
		g.Yield(time.Hour - 1) // once more: the runtime asks for each container
		g.Yield(time.Hour)
		pod := burst.Pod{Groups: []*burst.Group{g}}
		pool := headroom.Pool{Threshold: 1, CPUs: 8} // no guard
		burst.Divide(&pool, time.Hour+burst.YieldFor-1, []*burst.Group{g})
		if g.Facts.Ceiling != 0.5 || g.Saves() {
			t.Errorf("%s: ceiling %v while it is resized", end, g.Facts.Ceiling)
		}
		g.Decision.Reason = credit.GuardFull
		if got := g.Limited(&pool); got != "the pod is being resized" {
			t.Errorf("%s: limited by %q", end, got)
		}
		if e := pod.Extra(g); e.Quota != 2.5 || e.Burst != 0 || !pod.Raised() {
			t.Errorf("%s: the pod has %+v more, raised %v, while it is resized", end, e, pod.Raised())
		}
		debug := burst.Pod{Groups: pod.Groups}
		debug.SetUnlimited(time.Hour, "debug")
		if e := debug.Extra(g); e.Quota != 0 || debug.Raised() {
			t.Errorf("%s: a pod with a container that has no limit has %+v more while it is resized", end, e)
		}
		now := time.Hour + burst.YieldFor
		if end == "the new limit stands" {
			g.Resized()
			now--
		}
		burst.Divide(&pool, now, []*burst.Group{g})
		if g.Facts.Ceiling != 1.5 || !g.Saves() {
			t.Errorf("%s: ceiling %v afterwards", end, g.Facts.Ceiling)
		}
		if pod.Raised() != (end == "the new limit stands") {
			t.Errorf("%s: the pod is raised: %v; other containers of it may still be resized", end, pod.Raised())
		}
		burst.Divide(&pool, time.Hour+burst.YieldFor, []*burst.Group{g})
		if e := pod.Extra(nil); e.Quota != 0 || pod.Raised() {
			t.Errorf("%s: the pod has %+v more afterwards", end, e)
		}
	}
	low := container("low", 50000)
	if quota, kernel := low.Yield(time.Hour); quota || kernel {
		t.Errorf("a group at its limit has to be written: %v, %v", quota, kernel)
	}
	if pod := (burst.Pod{Groups: []*burst.Group{low}}); pod.Raised() || pod.Extra(nil).Quota != 0 {
		t.Error("the pod of a group at its limit is raised for a resize")
	}
}

// TestGroupIsHeldWhileItsSpecDiffers checks that a group has only its own limit while its specification names another
// limit.
func TestGroupIsHeldWhileItsSpecDiffers(t *testing.T) {
	g := container("app", 150000)
	g.Resizing = true
	pool := headroom.Pool{Threshold: 1, CPUs: 8}
	burst.Divide(&pool, time.Hour, []*burst.Group{g})
	if g.Facts.Ceiling != 0.5 || !g.MustLower() {
		t.Errorf("ceiling %v", g.Facts.Ceiling)
	}
}

func TestLimited(t *testing.T) {
	busy := headroom.Pool{Threshold: 0.5, CPUs: 8}
	busy.Sample(time.Second, 0, 0)
	busy.Sample(2*time.Second, unit.CPUTime(6*time.Second), 0)
	for _, c := range []struct {
		reason credit.Reason
		pool   headroom.Pool
		want   string
	}{
		{credit.AtCeiling, busy, ""},
		{credit.NoCredit, busy, ""},
		{credit.NothingToGain, busy, "the limit is all that its CPUs, or the policy's percentage, allow"},
		{credit.AncestorCapped, busy, "group a/b above leaves 0.700 CPUs"},
		{credit.AncestorCap, busy, "group a/b above leaves 0.700 CPUs"},
		{credit.GuardCapped, busy, "the node is used to 75 %: the share of this group is 0.600 CPUs"},
		{credit.GuardFull, headroom.Pool{Threshold: 0.5, CPUs: 8}, "the use of the node is not known yet"},
		{credit.CreditTooSmall, busy, "the credit of 0.100 CPU-seconds is less than the 0.300 that one raise must reserve: " +
			"raise cfsQuotaBurstPeriodSeconds or cfsQuotaBurstPercent"},
	} {
		g := container("app", 50000)
		g.CapGroup, g.Facts.Cap, g.Facts.Ceiling = "a/b", 0.7, 0.6
		g.Decision = credit.Decision{Reason: c.reason, Capacity: 0.1, Needed: 0.3}
		if got := g.Limited(&c.pool); got != c.want {
			t.Errorf("%v: %q, want %q", c.reason, got, c.want)
		}
	}
}
