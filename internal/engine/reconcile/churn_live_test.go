package reconcile_test

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// churn is a host on which containers come, go, and gain and lose exclusive CPUs.
type churn struct {
	*live
	random *rand.Rand
	groups map[string]*scratch.Group
	// own has the CPUs of pinned containers, and running has the effective CPUs of each group.
	own, running map[string]cpuset.Set
	made         int
}

// TestChurn makes random changes of a node. After every single write it checks that no group got a CPU of another
// group.
func TestChurn(t *testing.T) {
	l := newLive(t)
	before := l.files()
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	c := &churn{
		live: l, random: rand.New(rand.NewPCG(seed, 0)),
		groups: map[string]*scratch.Group{}, own: map[string]cpuset.Set{}, running: map[string]cpuset.Set{},
	}
	for range 4 {
		c.come()
	}
	c.restart()
	for round := range 60 {
		switch what := c.random.IntN(10); {
		case what == 0 && len(c.groups) < 7:
			c.come()
		case what == 1 && len(c.groups) > 3:
			c.leave()
		case what == 2:
			c.restart()
		case what == 3:
			c.meddle()
		default:
			c.change()
		}
		c.reconciler.Want(reconcile.Of(c.desired()...))
		c.pass(20 * time.Second)
		c.check(round)
		if t.Failed() {
			return
		}
	}
	clear(c.own)
	c.reconciler.Want(nil)
	c.pass(time.Second)
	for _, g := range c.groups {
		must(t, g.Close())
	}
	l.same(before)
	if n := len(l.journal.Entries()); n > 0 {
		t.Errorf("%d entries left", n)
	}
}

// restart replaces the agent, as after a crash.
func (c *churn) restart() {
	c.start()
	must(c.T, c.reconciler.Close())
	c.reconciler = reconcile.New(reconcile.Options{
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool}, Host: c.host, Journal: c.journal,
		Applier: apply.New(cgroupfile.Kinds(c.host, nil), c.journal, apply.Options{Step: c.watch}),
	})
	k := c.reconciler
	c.Cleanup(func() { _ = k.Close() })
}

func (c *churn) some() string {
	n := c.random.IntN(len(c.groups))
	for name := range c.groups {
		if n--; n < 0 {
			return name
		}
	}
	return ""
}

func (c *churn) come() {
	c.made++
	name := fmt.Sprint("c", c.made)
	c.groups[name] = c.sub(c.top, name)
	c.look(name)
}

func (c *churn) leave() {
	name := c.some()
	must(c.T, c.groups[name].Close())
	delete(c.groups, name)
	delete(c.own, name)
	delete(c.running, name)
}

// meddle acts as another writer, rarely enough to be overwritten.
func (c *churn) meddle() {
	c.now += 2 * time.Minute
	must(c.T, c.groups[c.some()].SetCPUs(c.all))
	c.look("")
}

// change gives a container free exclusive CPUs, or removes some or all of them, as the arbiter does. No container
// exchanges its CPUs. One CPU is left for the shared pool.
func (c *churn) change() {
	name := c.some()
	had, pinned := c.own[name]
	delete(c.own, name)
	if pinned && c.random.IntN(2) == 0 {
		return
	}
	free, cpus, grows := c.all.Difference(c.taken()), had, c.random.IntN(2) == 0
	for cpu := range free.All() {
		switch {
		case c.random.IntN(3) > 0:
		case grows || had.IsEmpty():
			cpus = cpus.Add(cpu)
		case cpus.Size() > 1:
			cpus = cpus.Remove(cpu)
		}
	}
	if !cpus.IsEmpty() && cpus != free {
		c.own[name] = cpus
	}
}

func (c *churn) taken() cpuset.Set {
	var taken cpuset.Set
	for _, cpus := range c.own {
		taken = taken.Union(cpus)
	}
	return taken
}

func (c *churn) desired() []reconcile.Group {
	if len(c.own) == 0 {
		return nil
	}
	var desired []reconcile.Group
	for name, g := range c.groups {
		w := reconcile.Group{Group: g.Path(), CPUs: c.all.Difference(c.taken()), Workload: "pool"}
		if own, pinned := c.own[name]; pinned {
			w.CPUs, w.Pinned, w.NoQuota, w.Workload = own, true, true, name
		}
		desired = append(desired, w)
	}
	return desired
}

// watch observes every write.
func (c *churn) watch(s apply.Step, target plan.Target) {
	if s != apply.StepWritten && s != apply.StepRestored || cgroupfile.Knob(target) != cgroup.KnobCPUs {
		return
	}
	for name, g := range c.groups {
		if g.Path() != target.Object {
			continue
		}
		before := c.running[name]
		taken := c.look(name).Difference(before)
		for other, cpus := range c.running {
			_, pinned := c.own[name]
			_, othersPinned := c.own[other]
			if other != name && (pinned || othersPinned) && cpus.Intersects(taken) {
				c.Errorf("%s got %s while %s had %s", name, taken, other, cpus)
			}
		}
	}
}

// look reads the effective CPUs of a group, or of all groups.
func (c *churn) look(name string) cpuset.Set {
	for n, g := range c.groups {
		if n != name && name != "" {
			continue
		}
		cpus, err := g.Handle().EffectiveCPUs()
		must(c.T, err)
		c.running[n] = cpus
	}
	return c.running[name]
}

func (c *churn) check(round int) {
	c.look("")
	pool := c.all.Difference(c.taken())
	for name, cpus := range c.running {
		want, quota := pool, false
		if own, pinned := c.own[name]; pinned {
			want, quota = own, true
		}
		b, err := c.groups[name].Handle().Bandwidth()
		must(c.T, err)
		if cpus != want || quota && b.Quota != unit.NoLimit {
			c.Errorf("round %d: %s runs on %s, quota %d; want %s", round, name, cpus, b.Quota, want)
		}
	}
}
