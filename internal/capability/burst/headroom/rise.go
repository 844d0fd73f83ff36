package headroom

import (
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Rise is the least amount that is left to a group while that is more than the group has, and the time since when.
// Without the wait, each moment with more would cause a write of the group's quota, and each write refills the group's
// pool. The caller chooses the wait: GuardMemory for the node, burst's capPause for the groups above. The zero value
// has seen nothing.
type Rise struct {
	Least unit.CPUs
	since time.Duration
}

// See records the amount that is left now, and reports whether it is the least of the rise.
func (r *Rise) See(now time.Duration, left unit.CPUs) (isLeast bool) {
	switch {
	case r.Least == 0:
		*r = Rise{left, now}
	case left < r.Least:
		r.Least = left
	default:
		return false
	}
	return true
}

// Lasted reports whether the rise has lasted for long.
func (r Rise) Lasted(now, long time.Duration) bool { return r.Least != 0 && now-r.since >= long }
