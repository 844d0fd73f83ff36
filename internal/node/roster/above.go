package roster

import (
	"errors"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/value/unit"
)

// keptFor is how long a group stays open after its last use.
const keptFor = 5 * time.Second

// Above has the groups above those of workloads, and other groups of which little is read. Many workloads share them:
// Above opens each group once, and reads each of its files at most once a round.
type Above struct {
	host   *cgroup.Host
	now    time.Duration
	byPath map[string]*ancestor
}

// ancestor is one open group of Above. A value was read in the present round if its time is that of the round.
type ancestor struct {
	group              *cgroup.Group
	asked              time.Duration
	limitAt, countedAt time.Duration
	limit              unit.CPUs
	throttled          uint64
	// children were read at childrenAt.
	children   []string
	childrenAt time.Duration
}

// NewAbove returns an Above for a host, with no group open.
func NewAbove(host *cgroup.Host) *Above {
	return &Above{host: host, byPath: map[string]*ancestor{}}
}

// Round begins a round, and closes the groups that were not used lately.
func (a *Above) Round(now time.Duration) {
	a.now = now
	for path, one := range a.byPath {
		if now-one.asked > keptFor {
			a.drop(path)
		}
	}
}

// Unknown is the limit of a group whose limit could not be read yet.
const Unknown unit.CPUs = -1

// Limit returns the quota of the group at path as a rate, 0 if it has none or is gone. While the quota cannot be read,
// Limit returns the last value, or Unknown. A group that cannot be opened, for example without free file descriptors,
// may well have a quota.
func (a *Above) Limit(path string) unit.CPUs { return a.readLimit(path, 0) }

// LimitBelow returns the limit of a group that Children returned. There may be many groups, most without a quota: a
// group that had none is read again only when Children looks for new groups.
func (a *Above) LimitBelow(path string) unit.CPUs { return a.readLimit(path, keptFor) }

// readLimit reads a quota once a round. A group that had none is read again only after noneFor.
func (a *Above) readLimit(path string, noneFor time.Duration) unit.CPUs {
	one, err := a.at(path)
	switch {
	case errors.Is(err, cgroup.ErrNoGroup):
		return 0
	case err != nil:
		return Unknown
	case one.limitAt == a.now, one.limit == 0 && a.now-one.limitAt < noneFor:
		return one.limit
	}
	switch limit, err := readMax(one.group); {
	case err == nil:
		one.limit = limit
	case errors.Is(err, cgroup.ErrNoController):
		one.limit = 0
	case errors.Is(one.group.Has(cgroup.CPU), cgroup.ErrNoGroup): // perhaps made again: the next call opens it
		a.drop(path)
		return 0
	}
	one.limitAt = a.now
	return one.limit
}

// readMax reads the quota of a group as a rate, 0 for none. It does not read the burst.
func readMax(group *cgroup.Group) (unit.CPUs, error) {
	v, err := group.Read(cgroup.KnobMax)
	if err != nil {
		return 0, err
	}
	quota, period, err := v.Pair()
	if err != nil || quota < 0 {
		return 0, err
	}
	return unit.Rate(quota, period), nil
}

// Children returns the paths of the groups directly below the group at path, none if it is gone. They are read every
// five seconds.
func (a *Above) Children(path string) []string {
	one, err := a.at(path)
	if err != nil {
		return nil
	}
	if one.childrenAt < 0 || a.now-one.childrenAt >= keptFor {
		children, err := one.group.Children(cgroup.CPU)
		switch {
		case err == nil:
			one.children = children
		case errors.Is(err, cgroup.ErrNoGroup), errors.Is(err, hostfs.ErrGone): // removed, and perhaps made again
			a.drop(path)
			return nil
		}
		one.childrenAt = a.now
	}
	return one.children
}

// Throttled returns the number of periods in which the groups at these paths were throttled.
func (a *Above) Throttled(paths ...string) (sum uint64) {
	for _, path := range paths {
		sum += a.throttled(path)
	}
	return sum
}

// throttled returns the number for one group, 0 if it is gone.
func (a *Above) throttled(path string) uint64 {
	one, err := a.at(path)
	if err != nil {
		return 0
	}
	if one.countedAt != a.now {
		one.countedAt = a.now
		t, err := one.group.Throttling()
		if errors.Is(err, cgroup.ErrNoGroup) { // removed, and perhaps made again
			a.drop(path)
			return 0
		}
		if err == nil {
			one.throttled = t.Throttled
		}
	}
	return one.throttled
}

// at returns the open group at path.
func (a *Above) at(path string) (*ancestor, error) {
	one := a.byPath[path]
	if one == nil {
		group, err := a.host.Group(path, cgroup.CPU)
		if err != nil {
			return nil, err
		}
		one = &ancestor{group: group, limit: Unknown, limitAt: -1, countedAt: -1, childrenAt: -1}
		a.byPath[path] = one
	}
	one.asked = a.now
	return one, nil
}

// Close closes all groups.
func (a *Above) Close() {
	for path := range a.byPath {
		a.drop(path)
	}
}

func (a *Above) drop(path string) {
	_ = a.byPath[path].group.Close() // read only: nothing can be lost
	delete(a.byPath, path)
}
