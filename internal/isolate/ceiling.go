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

// QuotaGroup returns the group right above the groups of all offline workloads, which bounds
// them together. children returns the groups right below one. The error matches ErrNoQuotaGroup
// where that group is the root, or has other groups below it: they would be bounded as well.
func QuotaGroup(offline []string, children func(group string) ([]string, error)) (string, error) {
	if len(offline) == 0 {
		return "", fmt.Errorf("%w: there is no offline work", ErrNoQuotaGroup)
	}
	above := path.Dir(offline[0])
	for _, group := range offline {
		switch {
		case path.Dir(group) != above:
			return "", fmt.Errorf("%w: %s and %s are not side by side", ErrNoQuotaGroup, offline[0], group)
		case above == ".":
			return "", fmt.Errorf("%w: %s is right below the root", ErrNoQuotaGroup, group)
		}
	}
	all, err := children(above)
	if err != nil {
		return "", fmt.Errorf("groups below %s: %w", above, err)
	}
	for _, group := range all {
		if !slices.Contains(offline, group) {
			return "", fmt.Errorf("%w: %s has the online group %s", ErrNoQuotaGroup, above, strings.TrimPrefix(group, above+"/"))
		}
	}
	return above, nil
}

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
