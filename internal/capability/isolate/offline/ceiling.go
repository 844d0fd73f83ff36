package offline

import (
	"cmp"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// quotaPeriod is the period of the quota of offline work.
const quotaPeriod unit.Micros = 100_000

// errRefused is why offline work has no quota although one group has all of it.
var errRefused = errors.New("no quota")

// ceiling bounds offline work by a quota of the one group that has all of it.
type ceiling struct {
	host Host
	root *hostfs.Root
	// standing returns the matching entries of the journal.
	standing func(match func(journal.Entry) bool) []journal.Entry

	law isolate.Ceiling
	// group is the group with the quota, "" for none.
	group string
	// desired is the last decision, quota its size, figures and why its basis.
	desired []plan.Desired
	quota   unit.CPUs
	figures isolate.Figures
	why     isolate.Reason
	// pods are the groups of offline pods, also of earlier ones while the quota is set: the cluster forgets a
	// force-deleted pod before its processes end.
	pods []string
	// unknown is since when a group next to these belongs to no known work, unread since when the load cannot be read,
	// 0 for none.
	unknown, unread time.Duration
}

// unknownFor is how long a quota stays next to a group of no known work: the kubelet makes the group of a pod before
// the agent hears of the pod.
const unknownFor = 2 * time.Second

// drop forgets the load: there is no quota.
func (c *ceiling) drop() { *c = ceiling{host: c.host, root: c.root, standing: c.standing} }

// decide returns the desired quota of offline work, given the containers. The error is why there is none although there
// is offline work, or why it does not follow the load: one failed reading changes no quota.
func (c *ceiling) decide(now time.Duration, n isolate.Node, offline []observed.Pod, containers []observed.Workload) ([]plan.Desired, error) {
	if n.Offline = anyHere(offline); !n.Offline {
		c.drop()
		return nil, nil
	}
	group, err := isolate.QuotaGroup(offline, onlineOf(containers))
	var pods []string
	if err == nil {
		pods, err = c.alone(group, offline)
	}
	switch {
	case errors.Is(err, isolate.ErrUnknownGroup) && c.mayStay(now):
		return c.stands(), nil // most are known a moment later: that is no limit
	case errors.Is(err, isolate.ErrNoQuotaGroup):
		c.drop()
		return nil, err
	case err != nil:
		return c.stays(err)
	case group != c.group:
		c.drop()
	}
	c.group, c.pods, c.unknown = group, pods, 0
	unread := c.look(now)
	switch c.unread = cmp.Or(c.unread, max(now, 1)); {
	case unread == nil:
		c.unread = 0
	case now-c.unread < isolate.Window:
		return c.stays(unread)
	default:
		unread = fmt.Errorf("the quota is what is guaranteed: %w", unread)
	}
	q, f, why := c.law.Decide(max(now, 1), n)
	if blocker, err := c.blocker(unit.CPUs(q.Low)); err != nil {
		return c.stays(err)
	} else if blocker != "" && q.Cores > 0 {
		c.drop()
		return nil, fmt.Errorf("%w: %s must come down to %d CPUs, and the kernel refuses that because of %s", errRefused, group, q.Low, blocker)
	}
	c.quota, c.figures, c.why, c.desired = unit.CPUs(q.CPUs), f, why, nil
	if q.Cores == 0 {
		return nil, fmt.Errorf("%w: %s", errRefused, why)
	}
	c.desired = []plan.Desired{quotaOf(group, plan.Value(cgroup.MaxValue(c.quota.Quota(quotaPeriod), quotaPeriod)),
		fmt.Sprintf("offline work uses at most %s, those of %s", unit.Count(q.CPUs, "CPU"), unit.Count(q.Cores, "core")))}
	return c.desired, unread
}

func quotaOf(group string, value plan.Value, why string) plan.Desired {
	return plan.Desired{
		Setting: plan.Setting{
			Target: cgroupfile.Target(group, cgroup.KnobMax), Owner: plan.OwnerIsolate, Workload: group, Value: value, Why: why,
		},
		Writers: plan.Writers{PutsBack: true, Moves: true}, // systemd, at a daemon-reload
	}
}

// stands returns the last decided quota. Before the first decision that is the quota that a killed agent left behind:
// of the group, once it is known.
func (c *ceiling) stands() []plan.Desired {
	if len(c.desired) > 0 {
		return c.desired
	}
	var all []plan.Desired
	for _, e := range c.standing(func(e journal.Entry) bool {
		return e.Owner == plan.OwnerIsolate && e.Intent != "" && e.Target == cgroupfile.Target(e.Target.Object, cgroup.KnobMax) &&
			(c.group == "" || c.group == e.Target.Object)
	}) {
		all = append(all, quotaOf(e.Target.Object, e.Intent, e.Why))
	}
	return all
}

// mayStay reports whether a quota stays next to a group of no known work.
func (c *ceiling) mayStay(now time.Duration) bool {
	c.unknown = cmp.Or(c.unknown, max(now, 1))
	return now-c.unknown < unknownFor && len(c.stands()) > 0
}

// stays returns the present quota, and the error that prevents a new decision.
func (c *ceiling) stays(err error) ([]plan.Desired, error) {
	stands := c.stands()
	if len(stands) == 0 {
		return nil, err
	}
	return stands, fmt.Errorf("the quota stays as it is: %w", err)
}

// onlineOf returns the online workloads and pods of containers.
func onlineOf(containers []observed.Workload) []observed.Pod {
	var all []observed.Pod
	for i := range containers {
		if c := &containers[i]; !c.Class.Offline() {
			all = append(all, observed.Pod{Name: c.Name, Group: cmp.Or(c.Whole(), c.Group), Here: true})
		}
	}
	return all
}

// blocker returns what prevents lowering the quota of the group to low, "" for nothing. On cgroup v1 that is a limit of
// a group below, which the kernel would also refuse to a later writer. It is a blocker from the start, not only once
// the quota has come down to it: a quota that comes and goes helps neither side.
func (c *ceiling) blocker(low unit.CPUs) (string, error) {
	if hier, err := c.host.Hierarchy(cgroup.CPU); err != nil || hier.Version != 1 {
		return "", err
	}
	return cgroup.Peek(c.host, c.group, func(g *cgroup.Group) (string, error) {
		b, err := g.Bandwidth()
		if err != nil {
			return "", err
		}
		least, blocker, err := g.LowestQuota()
		if err != nil || least <= low.Quota(b.Period) {
			return "", err
		}
		return blocker, nil
	})
}

// look reads the CPU time of the CPUs, and of offline work.
func (c *ceiling) look(now time.Duration) error {
	spent, err := kernel.CPUsSpent(c.root)
	if err != nil {
		return err
	}
	used, err := cgroup.Peek(c.host, c.group, (*cgroup.Group).Usage)
	if err != nil {
		return err
	}
	c.law.Look(max(now, 1), spent, used)
	return nil
}

// alone returns the groups of offline pods below a group. The error matches isolate.ErrNoQuotaGroup if a quota of the
// group would bound anything else.
func (c *ceiling) alone(group string, offline []observed.Pod) (pods []string, err error) {
	var own []int
	children, err := cgroup.Peek(c.host, group, func(g *cgroup.Group) (children []string, err error) {
		if own, err = g.OwnProcs(); err == nil {
			children, err = g.Children(cgroup.CPU)
		}
		return children, err
	})
	switch {
	case err != nil:
		return nil, fmt.Errorf("group %s: %w", group, err)
	case len(own) > 0:
		return nil, fmt.Errorf("%w: %s has processes of its own", isolate.ErrNoQuotaGroup, group)
	}
	for _, child := range children {
		i := slices.IndexFunc(offline, func(w observed.Pod) bool { return isolate.Owns(&w, child) })
		if i < 0 && !slices.Contains(c.pods, child) {
			if some, err := cgroup.HasProcesses(c.host, child); err != nil {
				return nil, fmt.Errorf("group %s: %w", child, err)
			} else if some {
				return nil, fmt.Errorf("%w: %s has %w %s", isolate.ErrNoQuotaGroup, group, isolate.ErrUnknownGroup, path.Base(child))
			}
		} else if i < 0 || offline[i].UID != "" { // a workload ends when its administrator says so
			pods = append(pods, child)
		}
	}
	return pods, nil
}
