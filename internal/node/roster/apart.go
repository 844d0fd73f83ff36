package roster

import (
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Apart measures the CPU time of the groups that do not count in the shared pool: groups of offline work, and groups
// with exclusive CPUs. The zero value has measured no group.
type Apart struct {
	at   time.Duration
	seen map[*Entry]unit.CPUTime // of the groups that were apart at that time
}

// Used returns the CPU time that these groups used since the last call. A group that was not apart at the last call is
// measured from now on. The groups in unlimited run without a quota on exclusive CPUs. The groups in reserved have that
// many exclusive CPUs and also run on shared CPUs: what a group used beyond its exclusive CPUs belongs to the pool.
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
			usage = counted // the owner of the group reports the error
		}
		a.seen[e] = usage
		if !known {
			continue
		}
		used := max(usage.Since(counted), 0) // another group of the workload counts from zero
		if own > 0 && !e.Workload.Offline {
			used = min(used, unit.CPUTime(passed)*unit.CPUTime(own))
		}
		sum += used
	}
	return sum
}
