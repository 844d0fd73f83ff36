package credit_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestBoundByHand compares the bound with figures worked by hand: L = 0.5, e = 2 x (5 ms + 4 ms) = 0.018, R = 2 x 0.05 +
// 0.05 + e = 0.168, and a tick on each of two CPUs, 0.008.
func TestBoundByHand(t *testing.T) {
	group := facts{Period: 100_000, LimitQuota: 50_000, Burst: 50_000, CPUs: 2, Slice: 5000, Tick: 4 * time.Millisecond}
	besides := group
	besides.Beside = credit.Beside{Quota: 60_000, Burst: 10_000, CPUs: 4}
	policy := func(percent, seconds int64) credit.Policy {
		return credit.Policy{QuotaBurst: true, QuotaPercent: percent, PeriodSeconds: seconds}
	}
	for name, c := range map[string]struct {
		policy     credit.Policy
		facts      facts
		late, stay time.Duration
		want       unit.CPUSeconds
	}{
		"the credit":                       {policy(300, 10), group, 0, 0, 10.008},
		"a credit below the reserve":       {policy(120, 1), group, 0, 0, 0.176},
		"nothing that is raised":           {credit.Policy{}, group, time.Second, 0, 0.176},
		"late: Q - L is 1":                 {policy(300, 10), group, 300 * time.Millisecond, 0, 10.308},
		"late: n - L is 1.5, Q is 5":       {policy(1000, 1), group, 200 * time.Millisecond, 0, 4.808},
		"in kernel mode: 2 x 2 x 50 ms":    {policy(300, 10), group, 0, 50 * time.Millisecond, 10.208},
		"late and in kernel mode":          {policy(300, 10), group, 300 * time.Millisecond, 50 * time.Millisecond, 10.508},
		"no credit limit":                  {policy(300, -1), group, 0, 0, unit.CPUSeconds(math.Inf(1))},
		"beside, R: 0.168 + 0.13 + 0.036":  {policy(120, 1), besides, 0, 0, 0.35},
		"beside, late: n - L is 3.5":       {policy(300, 10), besides, 200 * time.Millisecond, 0, 10.716},
		"beside, in kernel mode on 4 CPUs": {policy(300, 10), besides, 0, 50 * time.Millisecond, 10.416},
	} {
		if got := credit.Bound(c.policy, c.facts, c.late, c.stay); got != c.want && math.Abs(float64(got-c.want)) > 1e-9 {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
