package credit_test

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/value/unit"
)

// How long may a container with a limit of two CPUs run above its limit? The policy pays for 60 seconds at three times
// the limit, and the load keeps six CPUs busy.
func ExampleDecide() {
	policy := credit.Policy{QuotaBurst: true, QuotaPercent: 300, PeriodSeconds: 60}
	facts := credit.Facts{
		LimitQuota: 200000, Period: 100000, Standing: 200000, CPUs: 8,
		Slice: 5000, Tick: 4 * time.Millisecond, Cap: unit.CPUs(math.Inf(1)), Ceiling: unit.CPUs(math.Inf(1)),
	}
	account := credit.Open(policy, facts, false)
	last := credit.Unset
	for second := range 75 {
		facts.At = time.Duration(second) * time.Second
		var decision credit.Decision
		account, decision = credit.Decide(policy, account, facts, time.Second)
		if decision.Reason != last {
			fmt.Printf("%2d s: %s, quota %d us in %d us, credit %.0f CPU-seconds\n",
				second, decision.Reason, decision.Quota, facts.Period, account.Credit)
			last = decision.Reason
		}
		facts.Standing = decision.Quota
		rate := unit.Rate(min(decision.Quota, 600000), facts.Period)
		facts.Usage += rate.Over(time.Second).Time()
	}
	// Output:
	// 0 s: AtCeiling, quota 599998 us in 100000 us, credit 240 CPU-seconds
	// 60 s: NoCredit, quota 200000 us in 100000 us, credit -2 CPU-seconds
}
