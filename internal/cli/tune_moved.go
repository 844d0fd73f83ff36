package cli

import (
	"context"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/value/table"
)

const (
	// counted is how long the kernel may take to count pages that it moved: it adds up the counts of its CPUs every two
	// seconds (FLUSH_TIME in mm/memcontrol.c).
	counted = 4 * time.Second
	// countPause is the time between two looks at these counts.
	countPause = 100 * time.Millisecond
)

// moved marks the units of an apply whose memory is not on the nodes that they were given. It waits until the kernel has
// counted the pages that moved.
func moved(ctx context.Context, host *knob.Host, rows []appliedRow) {
	until := time.Now().Add(counted)
	for i := range rows {
		row := &rows[i]
		if row.Knob != tune.UnitMems || row.State != "written" {
			continue
		}
		left := tuner.Elsewhere(host, row.File, row.Want)
		for left > 0 && time.Now().Before(until) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(countPause):
			}
			left = tuner.Elsewhere(host, row.File, row.Want)
		}
		if left > 0 {
			row.State, row.Why = "partial", elsewhere(left, row.Want)
		}
	}
}

// elsewhere describes the memory of a unit that is on other NUMA nodes than its list names.
func elsewhere(bytes int64, nodes string) string {
	return fmt.Sprintf("%s of its memory are on other NUMA nodes than %s; berth memory migrate --pid PROCESS --to %s moves what can move, and names the rest",
		table.Bytes(bytes), nodes, nodes)
}
