package bench

import (
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
)

// TestBoundGoal: one window above the bound is a miss, however few there are. A use within the bound is shown only by
// enough samples and strikes, and not beside the node guard.
func TestBoundGoal(t *testing.T) {
	abuse := func(excess float64, looks, strikes int) Abuse {
		return Abuse{
			Mode: "strikes", ExcessSeconds: excess, Looks: looks, Strikes: strikes, Threshold: 100,
			Bound: &AbuseBound{LatenessSeconds: 0.01, KernelModeSeconds: 0.1, Seconds: 2.2, WithoutKernelMode: 2},
		}
	}
	unknown := abuse(3, 600_000, 75)
	unknown.Bound, unknown.Unbounded = nil, errNoLateness.Error()
	between := abuse(2.1, 600_000, 75)
	between.UnseenSeconds = 0.101
	guarded, guardedAbove := abuse(1, 600_000, 75), abuse(3, 600_000, 75)
	guarded.Threshold, guardedAbove.Threshold = DefaultThreshold, DefaultThreshold
	for name, c := range map[string]struct {
		abuse   Abuse
		verdict Verdict
		without string
	}{
		"above":                   {abuse(2.201, 600_000, 75), Missed, "2.000 s, exceeded"},
		"above in a short run":    {abuse(2.201, 10, 0), Missed, "2.000 s, exceeded"},
		"at the bound":            {abuse(2.2, 100_000, 50), Met, "2.000 s, exceeded"},
		"below, only with X":      {abuse(2.001, 600_000, 75), Met, "2.000 s, exceeded"},
		"below, even without X":   {abuse(2, 600_000, 75), Met, "2.000 s, holds"},
		"too few samples":         {abuse(1, 99_999, 75), Open, "2.000 s, holds"},
		"too few strikes":         {abuse(1, 600_000, 49), Open, "2.000 s, holds"},
		"above between samples":   {between, Open, "2.000 s, exceeded"},
		"the agent did not say S": {unknown, Open, NotAvailable},
		"beside the guard":        {guarded, Open, "2.000 s, holds"},
		"beside the guard, above": {guardedAbove, Missed, "2.000 s, exceeded"},
	} {
		got := boundGoal(c.abuse)
		if got.Verdict != c.verdict {
			t.Errorf("%s: %+v", name, got)
		}
		if why := "--share-pool-threshold 100 wanted"; strings.Contains(got.Measured, why) != (name == "beside the guard") {
			t.Errorf("%s: %q, want %q beside the guard only", name, got.Measured, why)
		}
		if got := boundRows([]Abuse{c.abuse})[0]; got[5] != c.without || len(got) != len(boundHeader()) {
			t.Errorf("%s: %q, want %q without X", name, got, c.without)
		}
	}
}

// TestBoundOf: C = 2, Q - L = 1, a tick on two CPUs; X is the call of each of four threads, on two CPUs.
func TestBoundOf(t *testing.T) {
	f := credit.Facts{LimitQuota: 50_000, Period: Period, Burst: 50_000, CPUs: 2, Slice: 5000, Tick: 4 * time.Millisecond}
	got := AbuseOptions{Threads: 4}.boundOf(f, 2, 100*time.Millisecond, 50*time.Millisecond)
	for _, c := range []struct {
		what      string
		got, want float64
	}{
		{"S", got.LatenessSeconds, 0.1},
		{"X", got.KernelModeSeconds, 0.2},
		{"the bound", got.Seconds, 2.508},
		{"without X", got.WithoutKernelMode, 2.108},
	} {
		if math.Abs(c.got-c.want) > 1e-9 {
			t.Errorf("%s: %v, want %v", c.what, c.got, c.want)
		}
	}
}

func TestLatenessIn(t *testing.T) {
	for said, want := range map[string]time.Duration{
		`{"node":{"node":{"latenessSeconds":0.25},"other":1}}`: 250 * time.Millisecond,
		`{"node":{"node":{"latenessSeconds":0}}}`:              0,
		`{"node":{"node":{}}}`:                                 -1,
		`{"node":{}}`:                                          -1,
		`{"node":{"node":7}}`:                                  -1,
		``:                                                     -1,
	} {
		if late, err := latenessIn([]byte(said)); (err == nil) != (want >= 0) || err == nil && late != want || err != nil && !errors.Is(err, errNoLateness) {
			t.Errorf("%s: %s, %v", said, late, err)
		}
	}
}
