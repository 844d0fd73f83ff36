package tuner

import (
	"context"
	"fmt"
	"time"

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

// Count adds to Partly the units whose memory is not on the nodes that the apply gave them (Mems). It waits until the
// kernel has counted the pages that moved, for 4 s at most, or until ctx ends. An apply does not wait itself: it has
// the lock of stateDir/tune, which the undo at the deadline needs.
func (r *Result) Count(ctx context.Context, host *knob.Host) {
	until := time.Now().Add(counted)
	for _, s := range r.Mems {
		left := Elsewhere(host, s.File, s.Want)
		for left > 0 && time.Now().Before(until) && ctx.Err() == nil {
			select {
			case <-ctx.Done():
			case <-time.After(countPause):
			}
			left = Elsewhere(host, s.File, s.Want)
		}
		if left > 0 {
			s.Why = ElsewhereText(left, s.Want)
			r.Partly = append(r.Partly, s)
		}
	}
}

// ElsewhereText describes the memory of a unit that is on other NUMA nodes than its list names.
func ElsewhereText(bytes int64, nodes string) string {
	return fmt.Sprintf("%s of its memory are on other NUMA nodes than %s; berth memory migrate --pid PROCESS --to %s moves what can move, and names the rest",
		table.Bytes(bytes), nodes, nodes)
}
