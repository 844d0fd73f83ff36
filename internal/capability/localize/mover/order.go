package mover

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Order requests one pass over the processes of a group.
type Order struct {
	// Key names the order in reports. Group is the path of the group, as in cgroup.Host.Group; the pass also walks all
	// groups below it.
	Key, Group string
	// Local are the nodes whose pages stay. Targets are the local nodes to which pages move: all if empty. Nodes is the
	// nodes of the host.
	Local, Targets cpuset.Set
	Nodes          locality.Nodes
	// Unused is, by node, how much memory the groups bound there may still use by their limits. It does not count as
	// room.
	Unused observed.Bytes
	// Rate is a limit in bytes a second over all orders; 0 is no limit.
	Rate int64
	// DryRun makes the pass count what would move, and move nothing.
	DryRun bool
}

// remote reports whether a page is on a node that is not local. A negative number is no node.
func (o *Order) remote(node int32) bool { return node >= 0 && !o.Local.Contains(int(node)) }

// Phase is the state of an order.
type Phase string

const (
	// Queued means that other orders are before it.
	Queued Phase = "queued"
	// Moving means that the pass is under way, or waits for its next turn.
	Moving Phase = "moving"
	// Paused means that the pass would disturb others; Report.Reason says whom or what.
	Paused Phase = "paused"
	// Done means that the pass ended with Report.Outcome.
	Done Phase = "done"
)

// Moved is how many bytes moved from one node to another, by page type: base pages, transparent huge pages (THP), and
// pages of a pool (hugetlb).
type Moved struct {
	locality.Pair

	Base    int64 `json:"base"`
	Huge    int64 `json:"huge"`
	HugeTLB int64 `json:"hugetlb"`
}

// Exit is a process that ended during its walk, and the error that showed it.
type Exit struct {
	PID int
	Err error
}

// Report is the progress of an order.
type Report struct {
	Key    string
	Phase  Phase
	Reason string
	// Found counts the base pages that were found on other nodes or in swap. It is the sum of the moved pages and of
	// Left, which counts base pages by reason. A page that stays counts twice if two processes of the group have it
	// mapped: pages after a fork have no name by which this program could recognize them.
	Found  int64
	Moved  []Moved
	Left   map[locality.Left]int64
	Exited []Exit
	// Calls counts the calls that moved pages, Called is their total time, and Longest the time of the longest call.
	Calls           int
	Called, Longest time.Duration
	// Looked is the time that finding the pages took.
	Looked time.Duration
	// Rate is the moved bytes a second, pauses included.
	Rate   float64
	Pauses int
	// Outcome and Err are set when the pass is done. Err is why it failed.
	Outcome  locality.Outcome
	Err      error
	Warnings []string
	// Started and Ended are times of Options.Clock.
	Started, Ended time.Duration
}

// clone returns a copy that shares nothing with r.
func (r Report) clone() Report {
	r.Moved, r.Exited, r.Warnings = slices.Clone(r.Moved), slices.Clone(r.Exited), slices.Clone(r.Warnings)
	r.Left = maps.Clone(r.Left)
	return r
}

// leave counts base pages that stay.
func (r *Report) leave(why locality.Left, n int64) {
	if n > 0 {
		r.Left[why] += n
	}
}

// leaveFull counts pages for which no target has room, and reports whether room was missing and not only huge blocks.
func (r *Report) leaveFull(rest []page) (full bool) {
	for _, g := range rest {
		why := locality.LeftNoRoom
		if g.blocked {
			why = locality.LeftNoHugeBlock
		}
		r.leave(why, g.base())
		full = full || !g.blocked
	}
	return full
}

func (r *Report) warn(format string, args ...any) {
	if text := fmt.Sprintf(format, args...); !slices.Contains(r.Warnings, text) {
		r.Warnings = append(r.Warnings, text)
	}
}

// moved returns the entry of a pair.
func (r *Report) moved(pair locality.Pair) *Moved {
	i := slices.IndexFunc(r.Moved, func(m Moved) bool { return m.Pair == pair })
	if i < 0 {
		i, r.Moved = len(r.Moved), append(r.Moved, Moved{Pair: pair})
	}
	return &r.Moved[i]
}

// Bytes returns how many bytes were moved.
func (r Report) Bytes() int64 {
	var all int64
	for _, m := range r.Moved {
		all += m.Base + m.Huge + m.HugeTLB
	}
	return all
}
