package isolate

import (
	"errors"
	"fmt"
	"path"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// ErrNoQuotaGroup is why offline work has no quota: no group has all of it and nothing else.
var ErrNoQuotaGroup = errors.New("no group has all offline work and nothing else")

// ErrUnknownGroup is that reason where the group of no offline work that is known runs beside them.
var ErrUnknownGroup = errors.New("the online group")

// Work is a pod, or a workload of a host without Kubernetes, as a whole.
type Work struct {
	// Name is for people. Pod is the UID of the pod, empty for a workload.
	Name, Pod string
	// Group is the one that has all of it, "" where that is not known.
	Group string
	// Here says that it is not over, and that the container runtime has made something of it.
	Here bool
}

// Owns says whether a group is the work's, also where only its name says so: the kubelet makes
// the group of a pod before its sandbox, and removes it after that.
func (w *Work) Owns(group string) bool {
	return w.Group == group || w.Pod != "" && NotOwn(group, w.Pod) == ""
}

// QuotaGroup returns the group right above the groups of all offline work that is here, which
// bounds them together. The error matches ErrNoQuotaGroup where there is none, the group of some
// of that work is not known, or online work shares its processes.
func QuotaGroup(offline, online []Work) (string, error) {
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

// within says whether a group is below another one.
func within(group, above string) bool { return strings.HasPrefix(group, above+"/") }

// Ceiling follows the load as a Boundary does, where offline work has a quota in place of cores
// of its own: it runs anywhere, so that the online side is what is left of all use. It answers
// no surge within the second, since a quota holds for a whole period. The zero value has none
// yet. It is for one goroutine.
type Ceiling struct {
	boundary Boundary
	size     int
}

// Look takes what each CPU did since boot, by its number, and how much of that was offline work,
// at a moment of the monotonic clock that is above 0. It comes before the decision of that moment.
func (c *Ceiling) Look(now time.Duration, spent []unit.CPUSpent, offline unit.CPUTime) {
	c.boundary.gauge.look(now, spent, c.boundary.online, offline)
	c.boundary.gauge.fresh = false
}

// Decide says how many cores worth of time offline work may use, and why; 0 for no quota.
func (c *Ceiling) Decide(now time.Duration, n Node) (cores int, f Figures, why Reason) {
	b := &c.boundary
	f, b.online = b.gauge.law(now, n), cpusOf(n.Movable)
	if why = none(n); why != "" {
		*c = Ceiling{boundary: Boundary{gauge: b.gauge, online: b.online}}
		return 0, f, why
	}
	size, why := b.size(now, c.size, f)
	if size != c.size || !b.exists {
		b.moved, b.exists, c.size = now, true, size
	}
	return size, f, why
}
