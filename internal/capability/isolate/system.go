package isolate

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// System measures the CPU use of processes that belong to no pod and no workload: daemons, kernel threads, interrupts.
// Berth does not change them. The zero value has no sample yet.
type System struct {
	at   time.Duration
	busy unit.CPUTime
	used map[string]unit.CPUTime // by managed group
	// Use is the use between the last two samples, nil if it is not known; Unknown says why.
	Use     *unit.CPUs `json:"use,omitempty"`
	Unknown string     `json:"unknown,omitempty"`
}

// Look records the busy time of all CPUs since boot, with interrupts and without steal, and how much of it each managed
// group used.
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

// Managed returns groups that together contain all of the given work, each without any other work. For pods it returns
// the kubelet's group of all pods, so that one reading is enough. The error says why the groups are not known.
func Managed(work []observed.Pod) ([]string, error) {
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
	slices.Sort(all) // a parent comes before its children
	var top []string
	for _, group := range slices.Compact(all) {
		if !slices.ContainsFunc(top, func(above string) bool { return within(group, above) }) {
			top = append(top, group)
		}
	}
	return top, nil
}

// kubeletsOf returns the group of all pods that contains group, else the group itself.
func kubeletsOf(group string) (of string, isPod bool) {
	for above := group; above != "." && above != "/"; above = path.Dir(above) {
		name := strings.TrimSuffix(path.Base(above), ".slice")
		if name == "kubepods" || strings.HasSuffix(name, "-kubepods") {
			return above, true
		}
	}
	return group, false
}
