package follower

import (
	"strings"

	"github.com/berth-project/berth/internal/value/unit"
)

// Neighbour is a container that does not burst, in a pod with bursting containers.
type Neighbour interface {
	// Name is the workload's name, for messages.
	Name() string
	// Unlimited reports whether the container has no limit.
	Unlimited() bool
	// Usage returns the CPU time that the container used. A container that ended has lost its group, while its pod may
	// still be checked.
	Usage() (unit.CPUTime, error)
}

// beside has the containers that do not burst, in a pod with a limit that also has a container without one, as kubectl
// debug starts it. Only the pod's quota limits that container, and the pod's quota rises with the bursting containers.
// What the pod's limit leaves beyond the limits of the bursting containers belongs to siblings that have a limit and do
// not burst. Their use is therefore charged as well.
type beside struct{ all []charged }

// charged is one of these containers, with the use that was already charged.
type charged struct {
	Neighbour
	use unit.CPUTime
}

// take replaces the containers, and reports whether one of them is new. The use of a new container before it was seen
// is charged, unless the pod is new as well (first).
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
			use, _ = n.Usage() // it may have ended: the next check reports it
		}
		b.all = append(b.all, charged{n, use})
	}
	if !unlimited { // each container is limited by its own limit
		b.all, changed = nil, false
	}
	return changed
}

// used returns what the containers used since the last call.
func (b *beside) used() unit.CPUTime {
	var sum unit.CPUTime
	for i := range b.all {
		c := &b.all[i]
		usage, err := c.Usage()
		if err != nil {
			continue // it ended: the next check reports it
		}
		used := usage.Since(c.use)
		if used < 0 {
			used = usage // the container has another group
		}
		sum += used
		c.use = usage
	}
	return sum
}

// names returns the names of the containers without a limit, for messages.
func (b *beside) names() string {
	var names []string
	for _, c := range b.all {
		if c.Unlimited() {
			names = append(names, c.Name())
		}
	}
	return strings.Join(names, ", ")
}
