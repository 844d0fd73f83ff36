package view

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Throttling is what its own quota did to a workload that did not ask for burst, between two
// readings. Its JSON is a stable contract.
type Throttling struct {
	// Limit and Used are in CPUs, Seconds is over how long the rest was counted.
	Limit   float64 `json:"limitCPUs"`
	Used    float64 `json:"usedCPUs"`
	Seconds float64 `json:"seconds"`
	// Periods are those in which the group ran, Throttled those in which its quota stopped it.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttledPeriods"`
	// BurstHelps says that it was stopped often although it used less than its limit.
	BurstHelps bool `json:"burstWouldHelp"`
}

// Counted is one reading of a group: the counters are since it was made.
type Counted struct {
	Limit              unit.CPUs
	Used               unit.CPUTime
	Periods, Throttled uint64
}

// Burst pays a peak out of what was not used before it. Who uses more than highUse of its limit
// saves next to nothing, and who is stopped in fewer periods than lowShare waits for little.
const (
	highUse  = 0.9
	lowShare = 0.05
)

// ThrottlingBetween compares two readings of one group. It is nil where there is nothing to
// compare: the group was made anew, or no time passed.
func ThrottlingBetween(before, now Counted, passed time.Duration) *Throttling {
	used := now.Used.Since(before.Used)
	if now.Periods < before.Periods || now.Throttled < before.Throttled || used < 0 || passed <= 0 {
		return nil
	}
	t := Throttling{
		Limit: float64(now.Limit), Used: thousandths(used.Duration().Seconds() / passed.Seconds()), Seconds: passed.Seconds(),
		Periods: now.Periods - before.Periods, Throttled: now.Throttled - before.Throttled,
	}
	t.BurstHelps = t.Throttled > 0 && float64(t.Throttled) >= lowShare*float64(t.Periods) && t.Used <= highUse*t.Limit
	return &t
}

func thousandths(n float64) float64 { return math.Round(1000*n) / 1000 }
