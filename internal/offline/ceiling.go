package offline

import (
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

// Opener opens groups. *cgroup.Host is one.
type Opener interface {
	Group(path string, of ...cgroup.Controller) (*cgroup.Group, error)
}

// ceiling bounds offline work by a quota of the one group that has all of it.
type ceiling struct {
	host Opener
	root *hostfs.Root

	law isolate.Ceiling
	// group is the one with the quota, "" for none.
	group string
	// quota is what it has, figures and why what that follows.
	quota   unit.CPUs
	figures isolate.Figures
	why     isolate.Reason
}

// drop forgets the load: there is no quota.
func (c *ceiling) drop() { *c = ceiling{host: c.host, root: c.root} }

// decide returns the quota that is desired. The error says why there is none although there is
// offline work, and matches isolate.ErrNoQuotaGroup where no group can have one.
func (c *ceiling) decide(now time.Duration, n isolate.Node, containers []capability.Container) ([]plan.Desired, error) {
	offline := groupsOf(containers)
	if n.Offline = len(offline) > 0; !n.Offline {
		c.drop()
		return nil, nil
	}
	group, err := isolate.QuotaGroup(offline, c.children)
	if err != nil {
		c.drop()
		return nil, err
	}
	if group != c.group {
		c.drop()
		c.group = group
	}
	if err := c.look(now, n.Movable); err != nil {
		return nil, err
	}
	cores, f, why := c.law.Decide(max(now, 1), n)
	c.quota, c.figures, c.why = unit.CPUs(cores*f.Threads), f, why
	if cores == 0 {
		return nil, fmt.Errorf("%w: %s", isolate.ErrNoQuotaGroup, why)
	}
	return []plan.Desired{{
		Setting: plan.Setting{
			Target: cgroupfile.Target(group, cgroup.KnobMax), Owner: plan.OwnerIsolate, Workload: group,
			Value: plan.Value(cgroup.MaxValue(c.quota.Quota(quotaPeriod), quotaPeriod)),
			Why:   fmt.Sprintf("offline work uses at most %d cores of %d threads", cores, f.Threads),
		},
		Writers: plan.Writers{PutsBack: true}, // systemd, at a daemon-reload
	}}, nil
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

// children returns the groups right below one.
func (c *ceiling) children(group string) ([]string, error) {
	g, err := c.host.Group(group)
	if err != nil {
		return nil, err
	}
	defer g.Close()
	return g.Children(cgroup.CPU)
}

// groupsOf returns the groups of offline pods and workloads, each once.
func groupsOf(containers []capability.Container) []string {
	var all []string
	for i := range containers {
		c := &containers[i]
		if group := c.Whole(); c.Class.Offline() && !slices.Contains(all, group) {
			all = append(all, group)
		}
	}
	return all
}
