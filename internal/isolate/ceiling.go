package isolate

import (
	"errors"
	"fmt"
	"path"
	"slices"
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
	return w.Group == group || w.Pod != "" && OwnGroup(group, w.Pod) == nil
}

// Group is what has to be read of a group that may have a quota.
type Group struct {
	// Children are the groups right below it.
	Children []string
	// Occupied says that it has processes of its own, in none of these.
	Occupied bool
}

// QuotaGroup returns the group right above the groups of all offline work that is here, which
// bounds them together. The error matches ErrNoQuotaGroup where that would bound anything else, or
// the group of some of that work is not known. All others come from read, and from populated, which
// says whether a group, or one below it, has processes: without any it bounds nothing.
func QuotaGroup(
	offline, online []Work, read func(group string) (Group, error), populated func(group string) (bool, error),
) (string, error) {
	above, err := above(offline)
	if err != nil {
		return "", err
	}
	for _, w := range online {
		if w.Group == above || within(w.Group, above) || within(above, w.Group) {
			return "", fmt.Errorf("%w: %s shares processes with %s, which is online", ErrNoQuotaGroup, above, w.Name)
		}
	}
	g, err := read(above)
	if err != nil {
		return "", fmt.Errorf("group %s: %w", above, err)
	}
	if g.Occupied {
		return "", fmt.Errorf("%w: %s has processes of its own", ErrNoQuotaGroup, above)
	}
	for _, child := range g.Children {
		if slices.ContainsFunc(offline, func(w Work) bool { return w.Owns(child) }) {
			continue
		}
		if some, err := populated(child); err != nil {
			return "", fmt.Errorf("group %s: %w", child, err)
		} else if some {
			return "", fmt.Errorf("%w: %s has %w %s", ErrNoQuotaGroup, above, ErrUnknownGroup, path.Base(child))
		}
	}
	return above, nil
}

// above returns the group right above the groups of all work that is here.
func above(offline []Work) (string, error) {
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
	switch above := path.Dir(first); {
	case first == "":
		return "", fmt.Errorf("%w: there is no offline work", ErrNoQuotaGroup)
	case above == ".":
		return "", fmt.Errorf("%w: %s is right below the root", ErrNoQuotaGroup, first)
	default:
		return above, nil
	}
}

// within says whether a group is below another one.
func within(group, above string) bool { return strings.HasPrefix(group, above+"/") }

// Ceiling follows the load as a Boundary does, where offline work has a quota in place of cores
// of its own: it runs anywhere, so that the online side is what is left of all use. It answers
// no surge within the second, since a quota holds for a whole period. The zero value has none
// yet. It is for one goroutine.
type Ceiling struct {
	boundary Boundary
	online   unit.CPUTime
	size     int
}

// Look takes how much time the online side used since boot, at a moment of the monotonic clock
// that is above 0. It comes before the decision of that moment.
func (c *Ceiling) Look(now time.Duration, online unit.CPUTime) {
	g := &c.boundary.gauge
	if g.at == 0 {
		g.at, g.since, c.online = now, now, online
		return
	}
	if now <= g.at {
		return
	}
	// The use of all is counted in ticks and that of a group exactly: the difference may fall.
	if online > c.online {
		g.busy += online.Since(c.online)
		c.online = online
	}
	if g.at = now; now-g.since >= second {
		g.close(now)
	}
}

// Decide says how many cores worth of time offline work may use, and why; 0 for no quota.
func (c *Ceiling) Decide(now time.Duration, n Node) (cores int, f Figures, why Reason) {
	use, known := c.boundary.gauge.use()
	f = Law(n.Policy, len(n.Movable), threads(n.Movable), use)
	if why := none(n); why != "" {
		*c = Ceiling{boundary: Boundary{gauge: c.boundary.gauge}, online: c.online}
		return 0, f, why
	}
	if !known {
		f.Target = f.Low
	}
	size, why := c.boundary.size(now, c.size, f)
	if size != c.size || !c.boundary.exists {
		c.boundary.moved, c.boundary.exists, c.size = now, true, size
	}
	return c.size, f, why
}
