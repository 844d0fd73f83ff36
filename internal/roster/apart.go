package roster

import (
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Apart measures what the groups use that do not count in the shared pool: those of offline
// work, and those with exclusive CPUs. The zero value measured none.
type Apart struct {
	at   time.Duration
	seen map[*Entry]unit.CPUTime // of those that were apart at that time
}

// Used returns the CPU time that they used since it was last asked. A group that was not
// apart then counts from now on. Those in unlimited run without a quota on exclusive CPUs.
// Those in reserved have so many exclusive CPUs and run on shared ones as well: what one used
// beyond its own is the pool's.
func (a *Apart) Used(now time.Duration, entries []*Entry, unlimited map[string]bool, reserved map[string]int) unit.CPUTime {
	var sum unit.CPUTime
	passed, before := now-a.at, a.seen
	a.at, a.seen = now, make(map[*Entry]unit.CPUTime, len(before))
	for _, e := range entries {
		if e.Group == nil {
			continue
		}
		own := reserved[e.Group.Path()]
		if !e.Workload.Offline && !e.Workload.Exclusive && own == 0 && !unlimited[e.Group.Path()] {
			continue
		}
		counted, known := before[e]
		usage, err := e.Group.Usage()
		if err != nil {
			usage = counted // whoever looks at the group says so
		}
		a.seen[e] = usage
		if !known {
			continue
		}
		used := max(usage.Since(counted), 0) // another group of the workload starts anew
		if own > 0 && !e.Workload.Offline {
			used = min(used, unit.CPUTime(passed)*unit.CPUTime(own))
		}
		sum += used
	}
	return sum
}
