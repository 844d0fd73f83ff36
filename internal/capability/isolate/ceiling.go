package isolate

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// ErrNoQuotaGroup is why offline work has no quota: no group has all of it and nothing else.
var ErrNoQuotaGroup = errors.New("no group has all offline work and nothing else")

// ErrUnknownGroup means that processes run in a group beside the offline groups, and no known offline work owns that
// group.
var ErrUnknownGroup = errors.New("the online group")

// Owns reports whether a group is the pod's, also if only the group's name shows that: the kubelet makes the group of
// a pod before its sandbox, and removes it after the sandbox.
func Owns(w *observed.Pod, group string) bool {
	return w.Group == group || w.UID != "" && NotOwn(group, w.UID) == ""
}

// QuotaGroup returns the parent of the groups of all present offline work, which bounds them together. The error
// matches ErrNoQuotaGroup if they have no common parent, the group of some offline work is not known, or online work
// shares processes with the parent.
func QuotaGroup(offline, online []observed.Pod) (string, error) {
	first := ""
	for _, w := range offline {
		switch {
		case !w.Here:
		case w.Group == "":
			return "", fmt.Errorf("%w: the group of %s is not known", ErrNoQuotaGroup, w.Name)
		case first == "":
			first = w.Group
		case path.Dir(w.Group) != path.Dir(first):
			return "", fmt.Errorf("%w: %s and %s are not side by side", ErrNoQuotaGroup, first, w.Group)
		}
	}
	above := path.Dir(first)
	if above == "." {
		return "", fmt.Errorf("%w: %s is right below the root", ErrNoQuotaGroup, first)
	}
	for _, w := range online {
		if w.Group == above || within(w.Group, above) || within(above, w.Group) {
			return "", fmt.Errorf("%w: %s shares processes with %s, which is online", ErrNoQuotaGroup, above, w.Name)
		}
	}
	return above, nil
}

func within(group, above string) bool { return strings.HasPrefix(group, above+"/") }

// Ceiling follows the load as a Boundary does, but gives offline work a quota instead of cores. Offline work then runs
// anywhere, so the online use is all other use. It ignores surges within the second, since a quota applies for a whole
// period. The zero value has no quota yet. It is for one goroutine.
type Ceiling struct {
	boundary Boundary
	size     int
}

// Look records what each CPU did since boot, by its number, and the CPU time of offline work, at a monotonic time above
// 0. The caller calls it before Decide for the same moment.
func (c *Ceiling) Look(now time.Duration, spent []unit.CPUSpent, offline unit.CPUTime) {
	c.boundary.gauge.look(now, spent, c.boundary.online, offline)
	c.boundary.gauge.fresh = false
}

// Quota is how much time offline work may use.
type Quota struct {
	// Cores is for how many cores, 0 for no quota, CPUs how many CPUs these cores have.
	Cores, CPUs int
	// Low is how many CPUs offline work is guaranteed.
	Low int
}

// Decide returns how much time offline work may use, and why. It counts the cores that a boundary would give.
func (c *Ceiling) Decide(now time.Duration, n Node) (Quota, Figures, Reason) {
	b := &c.boundary
	order := resize(nil, n.Movable, len(n.Movable))
	f, why := b.gauge.law(now, n.Policy, order), none(n)
	b.online = cpusOf(order)
	q := Quota{Low: cpuCount(order[:f.Low])}
	if why != "" {
		*c = Ceiling{boundary: Boundary{gauge: b.gauge, online: b.online}}
		return q, f, why
	}
	q.Cores, why = b.size(now, c.size, f, false)
	if q.Cores != c.size || !b.exists {
		b.moved, b.exists, c.size = now, true, q.Cores
	}
	q.CPUs = cpuCount(order[:q.Cores])
	return q, f, why
}
