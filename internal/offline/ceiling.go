package offline

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// quotaPeriod is that of the quota of offline work.
const quotaPeriod unit.Micros = 100_000

// ceiling bounds offline work by a quota of the one group that has all of it.
type ceiling struct {
	host Host
	root *hostfs.Root

	law isolate.Ceiling
	// group is the one with the quota, "" for none.
	group string
	// desired is what was decided last, quota what it has, figures and why what that follows.
	desired []plan.Desired
	quota   unit.CPUs
	figures isolate.Figures
	why     isolate.Reason
	// pods are those of offline work, and those that were while the quota stood and still have a
	// group: the cluster forgets a pod that was deleted by force before its processes end.
	pods []isolate.Work
	// unknown is since when a group beside theirs is of no known work, 0 for none.
	unknown time.Duration
}

// unknownFor is for how long a quota stays beside a group of no known work: the kubelet makes the
// group of a pod before the agent hears of the pod.
const unknownFor = 2 * time.Second

// drop forgets the load: there is no quota.
func (c *ceiling) drop() { *c = ceiling{host: c.host, root: c.root} }

// decide returns the quota that is desired for offline work, beside the containers. The error
// says why there is none although there is offline work, or why it stays as it is: a reading
// that fails once changes no quota.
func (c *ceiling) decide(now time.Duration, n isolate.Node, offline []isolate.Work, containers []capability.Container) ([]plan.Desired, error) {
	if n.Offline = anyHere(offline); !n.Offline {
		c.drop()
		return nil, nil
	}
	ended := c.ended(offline)
	var children []string
	read := func(group string) (isolate.Group, error) {
		g, err := c.read(group)
		children = g.Children
		return g, err
	}
	group, err := isolate.QuotaGroup(slices.Concat(offline, ended), onlineOf(containers), read, c.populated)
	switch {
	case errors.Is(err, isolate.ErrUnknownGroup) && c.mayStay(now):
		return c.desired, nil // most are known a moment later: that is no limit
	case errors.Is(err, isolate.ErrNoQuotaGroup):
		c.drop()
		return nil, err
	case err != nil:
		return c.stays(err)
	case group != c.group:
		c.drop()
		c.group = group
	}
	c.unknown = 0
	ended = slices.DeleteFunc(ended, func(w isolate.Work) bool { return !slices.ContainsFunc(children, w.Owns) })
	c.pods = slices.Concat(offline, ended)
	if err := c.look(now, n.Movable); err != nil {
		return c.stays(err)
	}
	cores, f, why := c.law.Decide(max(now, 1), n)
	if blocker, err := c.blocker(unit.CPUs(f.Low * f.Threads)); err != nil {
		return c.stays(err)
	} else if blocker != "" && cores > 0 {
		c.drop()
		return nil, fmt.Errorf("%w: %s must come down to %d CPUs, and the kernel refuses that because of %s", errRefused, group, f.Low*f.Threads, blocker)
	}
	c.quota, c.figures, c.why, c.desired = unit.CPUs(cores*f.Threads), f, why, nil
	if cores == 0 {
		return nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	c.desired = []plan.Desired{{
		Setting: plan.Setting{
			Target: cgroupfile.Target(group, cgroup.KnobMax), Owner: plan.OwnerIsolate, Workload: group,
			Value: plan.Value(cgroup.MaxValue(c.quota.Quota(quotaPeriod), quotaPeriod)),
			Why:   fmt.Sprintf("offline work uses at most %d cores of %d threads", cores, f.Threads),
		},
		Writers: plan.Writers{PutsBack: true, Moves: true}, // systemd, at a daemon-reload
	}}
	return c.desired, nil
}

// ended returns the pods that were offline work while the quota stood and that are not known any more.
func (c *ceiling) ended(offline []isolate.Work) []isolate.Work {
	var all []isolate.Work
	for _, w := range c.pods {
		if w.Pod == "" || slices.ContainsFunc(offline, func(o isolate.Work) bool { return o.Pod == w.Pod }) {
			continue // a workload ends when its administrator says so
		}
		w.Here = false
		all = append(all, w)
	}
	return all
}

// mayStay says whether a quota stays beside a group of no known work.
func (c *ceiling) mayStay(now time.Duration) bool {
	if c.unknown == 0 {
		c.unknown = max(now, 1)
	}
	return len(c.desired) > 0 && now-c.unknown < unknownFor
}

// errRefused is why offline work has no quota although one group has all of it.
var errRefused = errors.New("no quota")

// stays returns the quota as it was decided last, and the error that keeps it from being decided
// anew.
func (c *ceiling) stays(err error) ([]plan.Desired, error) {
	if len(c.desired) == 0 {
		return nil, err
	}
	return c.desired, fmt.Errorf("the quota stays at %.4g CPUs: %w", float64(c.quota), err)
}

// onlineOf returns the online workloads and pods of containers.
func onlineOf(containers []capability.Container) []isolate.Work {
	var all []isolate.Work
	for i := range containers {
		if c := &containers[i]; !c.Class.Offline() {
			all = append(all, isolate.Work{Name: c.Name, Group: cmp.Or(c.Whole(), c.Group)})
		}
	}
	return all
}

// blocker says what keeps the quota of the group from being as low as that, "" for nothing: on
// cgroup v1 a limit of a group below, which the kernel would also refuse to whoever writes one
// later. It counts from the start and not only once the quota has come down to it, since a
// quota that came and went would help neither side.
func (c *ceiling) blocker(low unit.CPUs) (string, error) {
	if hier, err := c.host.Hierarchy(cgroup.CPU); err != nil || hier.Version != 1 {
		return "", err
	}
	g, err := c.host.Group(c.group)
	if err != nil {
		return "", err
	}
	defer g.Close()
	b, err := g.Bandwidth()
	if err != nil {
		return "", err
	}
	least, blocker, err := g.LowestQuota()
	if err != nil || least <= low.Quota(b.Period) {
		return "", err
	}
	return blocker, nil
}

// look reads what the CPUs that offline work may use did, without what it used itself.
func (c *ceiling) look(now time.Duration, movable []isolate.Core) error {
	spent, err := kernel.CPUsSpent(c.root)
	if err != nil {
		return err
	}
	g, err := c.host.Group(c.group)
	if err != nil {
		return err
	}
	defer g.Close()
	used, err := g.Usage()
	if err != nil {
		return err
	}
	var all unit.CPUTime
	for _, core := range movable {
		for cpu := range core.CPUs.All() {
			if cpu < len(spent) {
				all += spent[cpu].Busy
			}
		}
	}
	c.law.Look(max(now, 1), all-used)
	return nil
}

// read reads what else a quota of a group would bound.
func (c *ceiling) read(group string) (isolate.Group, error) {
	g, err := c.host.Group(group)
	if err != nil {
		return isolate.Group{}, err
	}
	defer g.Close()
	children, err := g.Children(cgroup.CPU)
	if err != nil {
		return isolate.Group{}, err
	}
	own, err := g.OwnProcs()
	return isolate.Group{Children: children, Occupied: len(own) > 0}, err
}

// populated says whether a group, or one below it, has processes, also those that have no id here.
func (c *ceiling) populated(group string) (bool, error) {
	g, err := c.host.Group(group, cgroup.CPU)
	if errors.Is(err, cgroup.ErrNoGroup) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer g.Close()
	pids, foreign, err := g.Processes()
	if errors.Is(err, cgroup.ErrNoGroup) {
		return false, nil
	}
	return len(pids)+foreign > 0, err
}
