package isolate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// System measures what processes use that belong to no pod and no workload, on any CPU: daemons, the
// kernel's own, interrupts. Berth leaves them as they are. The zero value has not looked yet.
type System struct {
	at   time.Duration
	busy unit.CPUTime
	used map[string]unit.CPUTime // by managed group
	// Use is theirs between the last two looks, nil where that is not known: Unknown says why.
	Use     *unit.CPUs `json:"use,omitempty"`
	Unknown string     `json:"unknown,omitempty"`
}

// Look takes what all CPUs were busy for since boot, interrupts included and steal not, and how much of
// that each managed group used.
func (s *System) Look(now time.Duration, busy unit.CPUTime, used map[string]unit.CPUTime) {
	before := *s
	*s = System{at: now, busy: busy, used: used}
	if before.used == nil {
		s.Unknown = "it was looked at for the first time"
		return
	}
	rest, same := busy.Since(before.busy), len(used) == len(before.used)
	for group, now := range used {
		was, known := before.used[group]
		rest -= now.Since(was)
		same = same && known && now >= was
	}
	if !same {
		s.Unknown = "the groups of pods and workloads changed"
		return
	}
	s.Use = new(max(rest, 0).Seconds().Per(now - before.at))
}

// Managed returns the groups that have all of some work and of no other: of pods the one that the
// kubelet has all of them in, so that one reading is enough. The error says why they are not known.
func Managed(work []Work) ([]string, error) {
	var all []string
	homeless, pods := "", false
	for _, w := range work {
		if w.Group != "" {
			group, isPod := kubeletsOf(w.Group)
			all, pods = append(all, group), pods || isPod
		} else if w.Here {
			homeless = w.Name
		}
	}
	if homeless != "" && !pods {
		return nil, fmt.Errorf("the group of %s is not known", homeless)
	}
	slices.Sort(all) // a group comes after the one that it is in
	var top []string
	for _, group := range slices.Compact(all) {
		if !slices.ContainsFunc(top, func(above string) bool { return within(group, above) }) {
			top = append(top, group)
		}
	}
	return top, nil
}

// kubeletsOf returns the group of all pods where a group is in it, else the group itself.
func kubeletsOf(group string) (of string, isPod bool) {
	for above := group; above != "." && above != "/"; above = path.Dir(above) {
		name := strings.TrimSuffix(path.Base(above), ".slice")
		if name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
			return above, true
		}
	}
	return group, false
}
