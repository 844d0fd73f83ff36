package mover

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/locality"
)

// Order asks for one pass over the processes of a group.
type Order struct {
	// Key names the order in reports. Group is the path of the group, as in
	// cgroup.Host.Group; it and all groups below it are walked.
	Key, Group string
	// Local are the nodes whose pages stay, Targets those of them to which pages move: all
	// if empty. Nodes are those of the host.
	Local, Targets cpuset.Set
	Nodes          locality.Nodes
	// Unused is, by node, how much memory the groups bound there may still take by their
	// limits. It does not count as room.
	Unused locality.Bytes
	// Rate is a limit in bytes a second over all orders; 0 is none.
	Rate int64
	// DryRun walks and counts what would move, and moves nothing.
	DryRun bool
}

// Phase is where an order stands.
type Phase string

const (
	// Queued says: other orders are before it.
	Queued Phase = "queued"
	// Moving says: it is being walked, or waits for its next turn.
	Moving Phase = "moving"
	// Paused says: others would be disturbed; Report.Reason says by what.
	Paused Phase = "paused"
	// Done says: it ended, as Report.Outcome says.
	Done Phase = "done"
)

// Moved is how many bytes went from one node to another, by the size of their pages: base
// pages, huge pages that the kernel made (THP), and those of a pool (hugetlb).
type Moved struct {
	locality.Pair

	Base    int64 `json:"base"`
	Huge    int64 `json:"huge"`
	HugeTLB int64 `json:"hugetlb"`
}

// Exit is a process that ended while it was walked, and how that showed.
type Exit struct {
	PID int
	Err error
}

// Report is what became of an order so far.
type Report struct {
	Key    string
	Phase  Phase
	Reason string
	// Found counts the base pages that were found on other nodes or in swap. It is the
	// sum of those moved and of Left, which counts base pages by reason. A page that two
	// processes of the group have mapped, and that stays, counts twice: pages after a fork
	// have no name by which this program could know one again.
	Found  int64
	Moved  []Moved
	Left   map[locality.Left]int64
	Exited []Exit
	// Calls counts the calls that moved pages, Called is the time that they took together,
	// and Longest the longest one.
	Calls           int
	Called, Longest time.Duration
	// Looked is the time that it took to find the pages.
	Looked time.Duration
	// Rate is how many bytes a second were moved, pauses included.
	Rate   float64
	Pauses int
	// Outcome and Err are set when it is done. Err is why it failed.
	Outcome  locality.Outcome
	Err      error
	Warnings []string
	// Started and Ended are by Options.Clock.
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

// leaveFull counts pages that no target has room for, and says whether room was missing and not only
// huge blocks.
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

// moved returns the entry of a way.
func (r *Report) moved(pair locality.Pair) *Moved {
	i := slices.IndexFunc(r.Moved, func(m Moved) bool { return m.Pair == pair })
	if i < 0 {
		i, r.Moved = len(r.Moved), append(r.Moved, Moved{Pair: pair})
	}
	return &r.Moved[i]
}

// Bytes is how many bytes were moved.
func (r Report) Bytes() int64 {
	var all int64
	for _, m := range r.Moved {
		all += m.Base + m.Huge + m.HugeTLB
	}
	return all
}
