package view

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/value/unit"
)

func TestThrottlingBetween(t *testing.T) {
	before := Counted{Limit: 0.5, Used: 1e9, Periods: 100, Throttled: 10}
	after := func(limit unit.CPUs, used, periods, throttled uint64) Counted {
		return Counted{Limit: limit, Used: before.Used + unit.CPUTime(used)*1e6, Periods: before.Periods + periods, Throttled: before.Throttled + throttled}
	}
	for name, c := range map[string]struct {
		now  Counted
		want *Throttling
	}{
		"stopped and idle in turn": {after(0.5, 2500, 90, 40), &Throttling{Limit: 0.5, Used: 0.25, Seconds: 10, Periods: 90, Throttled: 40, BurstHelps: true}},
		"always busy":              {after(0.5, 4900, 100, 90), &Throttling{Limit: 0.5, Used: 0.49, Seconds: 10, Periods: 100, Throttled: 90}},
		"seldom stopped":           {after(0.5, 2500, 100, 4), &Throttling{Limit: 0.5, Used: 0.25, Seconds: 10, Periods: 100, Throttled: 4}},
		"often enough":             {after(0.5, 4500, 100, 5), &Throttling{Limit: 0.5, Used: 0.45, Seconds: 10, Periods: 100, Throttled: 5, BurstHelps: true}},
		"idle":                     {after(0.5, 0, 0, 0), &Throttling{Limit: 0.5, Seconds: 10}},
		"made again":               {Counted{Limit: 0.5, Used: 2e9, Periods: 99, Throttled: 12}, nil},
		"its counter again":        {Counted{Limit: 0.5, Used: 1, Periods: 200, Throttled: 12}, nil},
	} {
		if diff := cmp.Diff(c.want, ThrottlingBetween(before, c.now, 10*time.Second)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := ThrottlingBetween(before, before, 0); got != nil {
		t.Errorf("in no time: %+v", got)
	}
}
