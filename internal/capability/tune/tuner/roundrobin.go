package tuner

import (
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
)

// roundRobin is the knob whose file has the written value, while the kernel counts in ticks.
const roundRobin = "rr.slice"

// ReadBack compares the effective value with the file where the file does not show it: the slice of SCHED_RR. The
// effective slice is the desired one, or the next multiple of a tick. If the slice cannot be read, the file decides.
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
