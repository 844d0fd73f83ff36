package roster

import (
	"errors"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/unit"
)

// keptFor is how long a group that nothing asked for stays open.
const keptFor = 5 * time.Second

// Above are the groups above those of workloads, and others of which little is read. Many
// workloads have the same ones: each is opened once, and each of its files read at most once a
// round.
type Above struct {
	host   *cgroup.Host
	now    time.Duration
	byPath map[string]*ancestor
}

// ancestor is one group above that of a workload. What was read is of the present round
// where its time says so.
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

// NewAbove returns the groups of a host, none of which is open yet.
func NewAbove(host *cgroup.Host) *Above {
	return &Above{host: host, byPath: map[string]*ancestor{}}
}

// Round begins a round, and closes the groups that nothing asked for lately.
func (a *Above) Round(now time.Duration) {
	a.now = now
	for path, one := range a.byPath {
		if now-one.asked > keptFor {
			a.drop(path)
		}
	}
}

// Unknown is the limit of a group of which none could be read yet.
const Unknown unit.CPUs = -1

// Limit is the quota of the group at path as a rate, 0 where it has none or is gone. While it cannot be read it is the
// last that was: a group that cannot be opened, as where no more files can be, may well have one.
func (a *Above) Limit(path string) unit.CPUs { return a.readLimit(path, 0) }

// LimitBelow is that of a group that Children named. There may be many, most without a quota: one that had none is read
// again when new ones are looked for.
func (a *Above) LimitBelow(path string) unit.CPUs { return a.readLimit(path, keptFor) }

// readLimit reads a quota once a round, and where the group had none no more often than every so often.
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
	case errors.Is(one.group.Has(cgroup.CPU), cgroup.ErrNoGroup): // perhaps made again: it is opened anew when it is asked for
		a.drop(path)
		return 0
	}
	one.limitAt = a.now
	return one.limit
}

// readMax reads the quota of a group as a rate, 0 for none: that alone, not the burst beside it.
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

// Children are the paths of the groups right below the one at path, none where it is gone. They are read every five
// seconds.
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

// Throttled counts the periods in which the groups at these paths were throttled.
func (a *Above) Throttled(paths ...string) (sum uint64) {
	for _, path := range paths {
		sum += a.throttled(path)
	}
	return sum
}

// throttled counts those of one group, 0 where it is gone.
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

// at returns the group at path, opened.
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

// Close closes all of them.
func (a *Above) Close() {
	for path := range a.byPath {
		a.drop(path)
	}
}

func (a *Above) drop(path string) {
	_ = a.byPath[path].group.Close() // read only: nothing can be lost
	delete(a.byPath, path)
}
