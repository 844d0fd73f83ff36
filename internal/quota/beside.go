package quota

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/roster"
	"github.com/berth-project/berth/internal/unit"
)

// beside are the containers without a limit in a pod that has one, as kubectl debug
// starts them. Nothing but the pod's quota holds them, and that rises with the
// containers that burst. What the pod has besides the limits of those belongs to siblings
// that have a limit and do not burst, so that the use of these counts as well.
type beside struct{ groups []*Group }

// take replaces the containers. What a new one used before it was seen is charged,
// unless the pod was not looked at before either (first).
func (b *beside) take(groups []*Group, first bool) (changed bool) {
	if !slices.ContainsFunc(groups, isUnlimited) {
		groups = nil // each of them is held by its own limit
	}
	for _, m := range groups {
		if slices.Contains(b.groups, m) {
			continue
		}
		changed, m.besideUse = true, 0
		if usage, err := usageOf(m); first && err == nil {
			m.besideUse = usage
		}
	}
	b.groups = groups
	return changed
}

// used returns what the containers used since it was last asked.
func (b *beside) used() unit.CPUTime {
	var sum unit.CPUTime
	for _, m := range b.groups {
		usage, err := usageOf(m)
		if err != nil {
			continue // it ended: the next look at it says so
		}
		used := usage.Since(m.besideUse)
		if used < 0 {
			used = usage // another group
		}
		sum += used
		m.besideUse = usage
	}
	return sum
}

// usageOf reads what a container used. One that ended has lost its group meanwhile, while
// its pod is still looked at.
func usageOf(m *Group) (unit.CPUTime, error) {
	if m.group == nil {
		return 0, roster.ErrEnded
	}
	return m.group.Usage()
}

func isUnlimited(m *Group) bool { return m.state == burst.StateNoLimit }

// names are those of the containers without a limit, for messages.
func (b *beside) names() string {
	var names []string
	for _, m := range b.groups {
		if isUnlimited(m) {
			names = append(names, m.workload.Name)
		}
	}
	return strings.Join(names, ", ")
}
