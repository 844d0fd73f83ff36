package follower

import (
	"strings"

	"github.com/berth-project/berth/internal/unit"
)

// Neighbour is a container that does not burst, in the pod of those that do.
type Neighbour interface {
	// Name is the workload's, for messages.
	Name() string
	// Unlimited says that it has no limit.
	Unlimited() bool
	// Usage reads what it used. One that ended has lost its group meanwhile, while its pod is
	// still looked at.
	Usage() (unit.CPUTime, error)
}

// beside are the containers without a limit in a pod that has one, as kubectl debug
// starts them. Nothing but the pod's quota holds them, and that rises with the
// containers that burst. What the pod has besides the limits of those belongs to siblings
// that have a limit and do not burst, so that the use of these counts as well.
type beside struct{ all []charged }

// charged is one of them, with the use that was charged of it.
type charged struct {
	Neighbour
	use unit.CPUTime
}

// take replaces the containers. What a new one used before it was seen is charged,
// unless the pod was not looked at before either (first).
func (b *beside) take(others []Neighbour, first bool) (changed bool) {
	before := make(map[Neighbour]unit.CPUTime, len(b.all))
	for _, c := range b.all {
		before[c.Neighbour] = c.use
	}
	b.all = b.all[:0]
	unlimited := false
	for _, n := range others {
		use, known := before[n]
		unlimited = unlimited || n.Unlimited()
		changed = changed || !known
		if first && !known {
			use, _ = n.Usage() // one that ended: the next look at it says so
		}
		b.all = append(b.all, charged{n, use})
	}
	if !unlimited { // each of them is held by its own limit
		b.all, changed = nil, false
	}
	return changed
}

// used returns what the containers used since it was last asked.
func (b *beside) used() unit.CPUTime {
	var sum unit.CPUTime
	for i := range b.all {
		c := &b.all[i]
		usage, err := c.Usage()
		if err != nil {
			continue // it ended: the next look at it says so
		}
		used := usage.Since(c.use)
		if used < 0 {
			used = usage // another group
		}
		sum += used
		c.use = usage
	}
	return sum
}

// names are those of the containers without a limit, for messages.
func (b *beside) names() string {
	var names []string
	for _, c := range b.all {
		if c.Unlimited() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}
