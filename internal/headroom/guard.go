package headroom

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Demand is what one group would like to have of the node.
type Demand struct {
	// ID names the group for the caller; Share does not look at it.
	ID string
	// Limit is the group's limit and its weight in the division, in CPUs.
	Limit unit.CPUs
	// Ceiling is the highest rate it may have (Policy.Ceiling), in CPUs.
	Ceiling unit.CPUs
}

// GuardPause is the least time between two steps of one group's ceiling, unless
// the later one ends at the limit.
const GuardPause = 10 * time.Second

// guardStep is the least size of a step, in parts of the group's headroom.
const guardStep = 0.2

// Guard keeps the ceiling of one group steady while its share of the node
// moves. The zero value stands at the limit and takes its first step at once.
type Guard struct {
	limit, full, granted unit.CPUs
	at                   time.Duration
	stepped              bool
}

// Next takes the share that Share gave to d at the moment now (monotonic) and
// returns the guard afterwards and the ceiling that holds, in CPUs, between
// the group's limit and its full ceiling. The ceiling moves by at least a fifth of
// the group's headroom (full ceiling less limit) and at most once in
// GuardPause; only a share that is the limit itself takes effect at once. A
// group whose limit or ceiling changed starts anew.
func (g Guard) Next(now time.Duration, d Demand, share unit.CPUs) (Guard, unit.CPUs) {
	full := max(d.Limit, d.Ceiling)
	if !g.stepped || g.limit != d.Limit || g.full != full {
		g = Guard{limit: d.Limit, full: full, granted: d.Limit}
	}
	share = min(max(share, d.Limit), full)
	if math.IsNaN(float64(share)) {
		share = d.Limit
	}
	step := math.Abs(float64(share - g.granted))
	due := !g.stepped || now-g.at >= GuardPause
	large := step >= guardStep*float64(full-d.Limit)
	if step > 0 && (share == d.Limit || due && large) {
		g.granted, g.at, g.stepped = share, now, true
	}
	return g, g.granted
}
