package tuner

import (
	"time"

	"github.com/berth-project/berth/internal/tune"
)

// roundRobin is the knob whose file has what was written, while the kernel counts ticks.
const roundRobin = "rr.slice"

// ReadBack compares what the host does with what its files say, where they say less: the slice of SCHED_RR.
// It is the one that was asked for, or the next that is whole ticks. Where it cannot be read, what the
// file says counts.
func ReadBack(rows []tune.Verified, interval func() (time.Duration, error), tick time.Duration) []tune.Verified {
	for i := range rows {
		row := &rows[i]
		want, err := time.ParseDuration(row.Want)
		if row.Knob != roundRobin || row.State != tune.OK || err != nil {
			continue
		}
		made, err := interval()
		if err != nil {
			continue
		}
		row.Effective = made.String()
		if made < want || made >= want+tick {
			row.State = tune.Ignored
		}
	}
	return rows
}
