package view

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Throttling describes how a workload without burst was throttled by its own quota between two samples. Its JSON is a
// stable contract.
type Throttling struct {
	// Limit and Used are in CPUs; Seconds is the time between the two samples.
	Limit   float64 `json:"limitCPUs"`
	Used    float64 `json:"usedCPUs"`
	Seconds float64 `json:"seconds"`
	// Periods counts periods in which the group ran, Throttled periods in which its quota stopped it.
	Periods   uint64 `json:"periods"`
	Throttled uint64 `json:"throttledPeriods"`
	// BurstHelps is true if the workload was throttled often although it used less than its limit.
	BurstHelps bool `json:"burstWouldHelp"`
}

// Unmanaged reports whether the workload did not ask for burst although a quota may throttle it. Of these, a workload
// without CPUs did not ask for anything.
func (w *Workload) Unmanaged() bool { return w.Status == nil && w.Throttling != nil }

// Counted is one sample of a group's counters, which count from the creation of the group.
type Counted struct {
	Limit              unit.CPUs
	Used               unit.CPUTime
	Periods, Throttled uint64
}

// Burst pays for a peak with earlier unused quota. A workload above highUse of its limit saves almost nothing. A
// workload that is throttled in less than lowShare of its periods waits little.
const (
	highUse  = 0.9
	lowShare = 0.05
)

// ThrottlingBetween compares two samples of one group. It returns nil if they are not comparable: the group was created
// again, or no time passed.
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
