package headroom

import (
	"cmp"
	"math"
	"slices"

	"github.com/berth-project/berth/internal/value/unit"
)

// Share divides what the node has left among groups that ask for more than their limit, and returns each group's
// ceiling in the order of demands.
//
// threshold (0 to 1) is the share of the pool below which every group has the full ceiling. u is the mean use of the
// pool by everything that is neither offline nor pinned, over pool CPUs. From the threshold on, Share divides the
// headroom (1-u) x pool in proportion to the limits, each group up to its ceiling, until the headroom is used up. The
// sum of the groups' amounts above their limits never exceeds the headroom, as far as each group can use it
// (Demand.Reach). No group gets less than its limit. If u is NaN (no mean yet) there is no headroom.
func Share(threshold, u float64, pool unit.CPUs, demands []Demand) []unit.CPUs {
	out := make([]unit.CPUs, len(demands))
	if u < threshold {
		for i, d := range demands {
			out[i] = max(d.Limit, d.Ceiling)
		}
		return out
	}
	headroom := (1 - u) * float64(pool)
	if !(headroom > 0) { // also when it is not a number
		headroom = 0
	}
	level := waterLevel(headroom, demands)
	for i, d := range demands {
		out[i] = d.Limit + min(max(0, d.Ceiling-d.Limit), d.Limit*unit.CPUs(level))
	}
	return out
}

// room returns what the group can use above its limit.
func (d Demand) room() unit.CPUs {
	if d.Reach > 0 {
		return max(0, min(d.Ceiling, d.Reach)-d.Limit)
	}
	return max(0, d.Ceiling-d.Limit)
}

// waterLevel returns the level that each group gets in parts of its limit, unless it is full before, so that all groups
// together get headroom. The level is unbounded if headroom is left once all groups are full.
func waterLevel(headroom float64, demands []Demand) float64 {
	thirsty := make([]Demand, 0, len(demands))
	for _, d := range demands {
		if d.Limit > 0 && d.room() > 0 {
			thirsty = append(thirsty, d)
		}
	}
	// The groups that are full first come last. The weight of the remaining groups is then a sum from the front, and
	// subtractions lose nothing.
	slices.SortFunc(thirsty, func(a, b Demand) int { return cmp.Compare(b.fullAt(), a.fullAt()) })
	weights := make([]float64, len(thirsty))
	sum := 0.0
	for i, d := range thirsty {
		sum += float64(d.Limit)
		weights[i] = sum
	}
	level := 0.0
	for i, d := range slices.Backward(thirsty) {
		if headroom <= d.fullAt()*weights[i] {
			return max(level, headroom/weights[i])
		}
		level = d.fullAt()
		headroom -= float64(d.room())
	}
	if headroom > 0 {
		return math.MaxFloat64
	}
	return level
}

// fullAt returns the level at which the group has its ceiling.
func (d Demand) fullAt() float64 { return float64(d.room() / d.Limit) }
