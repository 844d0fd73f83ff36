package burst_test

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// container returns a group of a pod with half a CPU, up to three times that, and the given current quota.
func container(name string, standing unit.Micros) *burst.Group {
	g := &burst.Group{Name: name, Policy: credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 20}}
	g.Reset(credit.Facts{LimitQuota: 50000, Period: 100000, Standing: standing, CPUs: 8, Cap: unit.CPUs(math.Inf(1))})
	return g
}

// saver returns a container that saves only in the kernel's own burst.
func saver(name string) *burst.Group {
	g := container(name, 50000)
	g.Policy = credit.Policy{KernelBurst: true, CPUBurstPercent: 1000, QuotaPercent: 300}
	return g
}

func TestPodLetsThroughWhatItsContainersMay(t *testing.T) {
	low, raised, other, saving := container("low", 50000), container("raised", 150000), container("other", 150000), saver("saver")
	rising, falling := container("low", 50000), container("raised", 150000)
	undecided, foreign := container("undecided", 150000), saver("foreign")
	undecided.Facts.LimitQuota, foreign.ForeignBurst = 0, true
	for _, c := range []struct {
		what     string
		groups   []*burst.Group
		changing *burst.Group
		quota    unit.Micros
		want     burst.Extra
		raised   bool
	}{
		{"none stands above its limit", []*burst.Group{low}, nil, 0, burst.Extra{Workload: "low"}, false},
		{"twice 1.5 less 0.5 for each that does", []*burst.Group{low, raised, other}, nil, 0, burst.Extra{Quota: 5, Workload: "other"}, true},
		{"one is about to rise", []*burst.Group{rising, saving}, rising, 150000, burst.Extra{Quota: 2.5, Burst: 0.5, Workload: "low"}, false},
		{"one is about to fall", []*burst.Group{falling}, falling, 50000, burst.Extra{Workload: "raised"}, true},
		{"a limit is not known", []*burst.Group{undecided}, nil, 0, burst.Extra{Workload: "undecided"}, true},
		{"the burst of each that saves", []*burst.Group{saving, saving, foreign}, nil, 0, burst.Extra{Burst: 1, Workload: "saver"}, false},
		{"no container", nil, nil, 0, burst.Extra{}, false},
	} {
		p := burst.Pod{Groups: c.groups}
		if p.Raised() != c.raised || p.Saves() != (c.want.Burst > 0) {
			t.Errorf("%s: raised %v, saves %v", c.what, p.Raised(), p.Saves())
		}
		if c.changing != nil {
			c.changing.Facts.Standing = c.quota
		}
		got := p.Extra(c.changing)
		got.Why = ""
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

func TestOwnWithExtra(t *testing.T) {
	for _, c := range []struct {
		own          burst.Own
		extra        burst.Extra
		quota, burst unit.Micros
	}{
		{burst.Own{Quota: 100000, Period: 100000}, burst.Extra{}, 100000, 0},
		{burst.Own{Quota: 100000, Period: 100000}, burst.Extra{Quota: 2.5, Burst: 0.5}, 349998, 50000},
		{burst.Own{Quota: 10000, Period: 10000}, burst.Extra{Quota: 2.5, Burst: 0.5}, 34998, 5000},
		{burst.Own{Quota: 100000, Burst: 70000, Period: 100000}, burst.Extra{Burst: 0.5}, 100000, 70000}, // it had more
		{burst.Own{Quota: 100000, Period: 100000}, burst.Extra{Burst: 3}, 100000, 100000},                // the kernel's maximum
		{burst.Own{Quota: 100000, Period: 100000}, burst.Extra{Quota: -1, Burst: -1}, 100000, 0},
	} {
		if quota, burst := c.own.With(c.extra); quota != c.quota || burst != c.burst {
			t.Errorf("%+v with %+v is %d and %d, want %d and %d", c.own, c.extra, quota, burst, c.quota, c.burst)
		}
	}
}

// TestBelowFollowsTheGroup checks that a copy of the limit follows the group's quota.
func TestBelowFollowsTheGroup(t *testing.T) {
	g := container("app", 150000)
	for _, c := range []struct {
		own          unit.CPUs
		limit, quota unit.Micros
		want         unit.CPUs
	}{
		{0.5, 50000, 150000, 1},
		{0.51, 50000, 150000, 0.99}, // the value that systemd rounded
		{0.5, 50000, 50000, 0},
		{0.5, 0, 150000, 0}, // unknown
	} {
		g.Facts.LimitQuota = c.limit
		if got := g.Below(c.own, c.quota); got.Quota-c.want > 1e-9 || c.want-got.Quota > 1e-9 || got.Workload != "app" {
			t.Errorf("below %+v: %+v", c, got)
		}
	}
}

// TestPodChargesWhatIsBesideIt checks that CPU time which containers without a limit use beyond the remainder of the
// pod's limit is charged in proportion to the limits.
func TestPodChargesWhatIsBesideIt(t *testing.T) {
	for _, c := range []struct {
		what       string
		limit      unit.CPUs // the pod's
		used       time.Duration
		small, big time.Duration
	}{
		{"all of it", 1.5, 3 * time.Second, time.Second, 2 * time.Second},
		{"but for half a CPU that is spare for 2 s", 2, 4 * time.Second, time.Second, 2 * time.Second},
		{"nothing of what is spare", 2, 900 * time.Millisecond, 0, 0},
		{"a pod below its containers spares nothing", 1, 3 * time.Second, time.Second, 2 * time.Second},
	} {
		small, big := container("small", 50000), container("big", 100000)
		big.Facts.LimitQuota = 100000
		p := burst.Pod{Groups: []*burst.Group{small, big}, Limit: c.limit, Burst: 0.25}
		p.SetUnlimited(10*time.Second, "debugger")
		p.Charge(12*time.Second, unit.CPUTime(c.used))
		p.Expose(8)
		for g, want := range map[*burst.Group]time.Duration{small: c.small, big: c.big} {
			wanted := credit.Beside{Usage: unit.CPUTime(want), Quota: c.limit.Quota(100000), Burst: 25000, CPUs: 8}
			if diff := cmp.Diff(wanted, g.Facts.Beside); diff != "" {
				t.Errorf("%s: %s (-want +got):\n%s", c.what, g.Name, diff)
			}
			if want := "in its pod runs without a limit, and is charged to this account: debugger"; g.PaysFor() != want {
				t.Errorf("%s: %q", c.what, g.PaysFor())
			}
		}
	}
}

// TestPodWithoutAnyBesideIt checks that charged time stays charged after the last container without a limit has ended.
// The time until the next such container must not count as spare.
func TestPodWithoutAnyBesideIt(t *testing.T) {
	g := container("app", 50000)
	p := burst.Pod{Groups: []*burst.Group{g}, Limit: 1}
	p.SetUnlimited(0, "debugger")
	p.Charge(2*time.Second, unit.CPUTime(3*time.Second))
	p.SetUnlimited(3*time.Second, "")
	p.Expose(8)
	if want := (credit.Beside{Usage: unit.CPUTime(2 * time.Second)}); g.Facts.Beside != want || g.PaysFor() != "" || p.Unlimited() {
		t.Errorf("%+v, pays for %q", g.Facts.Beside, g.PaysFor())
	}
	p.SetUnlimited(60*time.Second, "another")
	p.Charge(62*time.Second, unit.CPUTime(3*time.Second))
	if got := g.Facts.Beside.Usage; got != unit.CPUTime(4*time.Second) {
		t.Errorf("%v was charged, want 4 s", got.Duration())
	}
}
