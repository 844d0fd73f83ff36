package headroom

import (
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Rise is what is left to a group while that is more than it has: the least of it, and since when. Who has more at
// once has its quota written for each moment in which there is more, and each write refills the group's pool. How long
// to wait is the caller's: GuardMemory for the node, burst's capPause for the groups above. The zero value saw nothing.
type Rise struct {
	Least unit.CPUs
	since time.Duration
}

// See takes over that this much is left now, and reports whether that is the least of the rise.
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

// Lasted reports whether it has been more for this long.
func (r Rise) Lasted(now, long time.Duration) bool { return r.Least != 0 && now-r.since >= long }
