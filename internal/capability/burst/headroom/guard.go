package headroom

import (
	"math"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Demand is what one group asks of the node.
type Demand struct {
	// ID names the group for the caller; Share ignores it.
	ID string
	// Limit is the group's limit and its weight in the division, in CPUs.
	Limit unit.CPUs
	// Ceiling is the highest rate it may have (Policy.Ceiling), in CPUs.
	Ceiling unit.CPUs
	// Reach is the rate that the group can attain, if that is less than its ceiling; 0 means the ceiling. Share
	// reserves nothing above it.
	Reach unit.CPUs
}

// GuardPause is the least time between two steps of one group's ceiling, unless
// the later one ends at the limit.
const GuardPause = 10 * time.Second

// GuardMemory is how long a share must have been higher before the ceiling rises. Otherwise a node whose use moves
// about the threshold would lower and raise quotas without end, and each write refills the group's pool. With at most
// five steps down for one up, a ceiling moves no more than six times in GuardMemory and 40 s: less than once in 20 s.
const GuardMemory = 90 * time.Second

// guardStep is the least size of a step, in parts of the group's headroom.
const guardStep = 0.2

// Guard keeps the ceiling of one group steady while its share of the node moves. The zero value is at the limit and
// makes its first step at once.
type Guard struct {
	limit, full, granted unit.CPUs
	at                   time.Duration
	stepped              bool
	// rise observes shares that are at least a step above granted.
	rise Rise
}

// Next applies the share that Share gave to d at the moment now (monotonic). It returns the new guard and the ceiling
// in CPUs, between the group's limit and its full ceiling. The ceiling moves by at least a fifth of the group's
// headroom (full ceiling less limit) and at most once in GuardPause. Only a share equal to the limit takes effect at
// once. The ceiling rises to the least share of the last GuardMemory. A group whose limit or ceiling changed starts
// again.
func (g Guard) Next(now time.Duration, d Demand, share unit.CPUs) (Guard, unit.CPUs) {
	full := max(d.Limit, d.Ceiling)
	if !g.stepped || g.limit != d.Limit || g.full != full {
		g = Guard{limit: d.Limit, full: full, granted: d.Limit}
	}
	share = min(max(share, d.Limit), full)
	if math.IsNaN(float64(share)) {
		share = d.Limit
	}
	step := guardStep * (full - d.Limit)
	if share <= g.granted || share < g.granted+step {
		g.rise = Rise{}
	} else {
		g.rise.See(now, share)
	}
	switch {
	case share == d.Limit && g.granted != d.Limit,
		share < g.granted && share <= g.granted-step && now-g.at >= GuardPause,
		g.rise.Least > 0 && !g.stepped:
		g = g.step(now, share)
	case g.rise.Lasted(now, GuardMemory):
		g = g.step(now, g.rise.Least)
	}
	return g, g.granted
}

// step moves the ceiling.
func (g Guard) step(now time.Duration, to unit.CPUs) Guard {
	return Guard{limit: g.limit, full: g.full, granted: to, at: now, stepped: true}
}
