package burst

import (
	"math"
	"slices"

	"github.com/berth-project/berth/internal/unit"
)

// Share divides what the node has left among groups that want more than their
// limit, and returns each group's ceiling in the order of demands.
//
// threshold (0 to 1) is the share of the pool below which everybody has the
// full ceiling; u is the mean use of the pool by everything that is neither
// offline nor pinned, over pool CPUs. From the threshold on the headroom
// (1-u) x pool is poured out in proportion to the limits, each group up to its
// ceiling, until it is used up: the sum of what the groups get above their
// limits never exceeds it. Nobody gets less than the limit. Where u is not a
// number (no mean yet) there is no headroom.
func Share(threshold, u float64, pool unit.CPUs, demands []Demand) []unit.CPUs {
	out := make([]unit.CPUs, len(demands))
	if u < threshold {
		for i, d := range demands {
			out[i] = max(d.Limit, d.Ceiling)
		}
		return out
	}
	level := waterLevel(max(0, (1-u)*float64(pool)), demands)
	for i, d := range demands {
		out[i] = d.Limit + min(d.room(), d.Limit*unit.CPUs(level))
	}
	return out
}

// room returns the group's headroom: what lies between limit and ceiling.
func (d Demand) room() unit.CPUs { return max(0, d.Ceiling-d.Limit) }

// waterLevel returns the headroom in parts of the limit that every group gets
// which is not full before, so that together they get headroom; at most the
// level at which all are full.
func waterLevel(headroom float64, demands []Demand) float64 {
	if math.IsNaN(headroom) {
		return 0
	}
	thirsty := make([]Demand, 0, len(demands))
	weight := 0.0
	for _, d := range demands {
		if d.Limit > 0 && d.room() > 0 {
			thirsty = append(thirsty, d)
			weight += float64(d.Limit)
		}
	}
	fullAt := func(d Demand) float64 { return float64(d.room() / d.Limit) }
	slices.SortFunc(thirsty, func(a, b Demand) int {
		switch x, y := fullAt(a), fullAt(b); {
		case x < y:
			return -1
		case x > y:
			return 1
		}
		return 0
	})
	level := 0.0
	for _, d := range thirsty {
		if level = max(0, headroom/weight); level < fullAt(d) {
			return level
		}
		level = fullAt(d)
		headroom -= float64(d.room())
		weight -= float64(d.Limit)
	}
	return level
}
