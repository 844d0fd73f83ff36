package agent

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/groups"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/self"
	"github.com/berth-project/berth/internal/statedir"
	"github.com/berth-project/berth/internal/workload"
)

// shared is how far apart two looks may be due and still share one wake-up. A
// look that comes early costs nothing; a wake-up does.
const shared = 10 * time.Millisecond

// controller is the agent's loop and what it works on. The mutex guards all of it, but
// for what says otherwise. It is taken for one step and never let go within one. The steps
// are: what is due once a second, a look at one group, an answer to the container runtime,
// a list of its containers, what the kubelet says, and an answer over HTTP, which reads
// only. systemd is asked between two steps. Any step may come after any other, so that
// none relies on what an earlier one found without comparing it.
type controller struct {
	opts Options

	mu sync.Mutex
	quotas
	journal *journal.Journal
	// reconciler brings about what is decided.
	reconciler *reconcile.Reconciler
	documents
	clusterState
	inventory *inventory.Inventory
	pins      pins
	machine   hostState
	self      self.Self
	// reported has what was said of problems that are still there.
	reported reported

	woken      chan struct{} // makes the loop turn at once
	nextSecond time.Duration
	windows
	// capabilities are what is reported, measured and remembered.
	capabilities []capability.Capability
}

func newController(opts Options, host *cgroup.Host, j *journal.Journal, a *apply.Applier) *controller {
	c := &controller{
		opts:      opts,
		documents: documents{watcher: manifest.NewWatcher(opts.ConfigFile, opts.Config.WorkloadDir)},
		reported:  reported{},
		woken:     make(chan struct{}, 1),
	}
	c.journal = j
	c.reconciler = c.newReconciler(host, a, reconcile.HasSystemd())
	c.quotas = newQuotas(&c.opts, host, c.reconciler.Quotas())
	c.machine.groups = groups.Groups{Host: host, Journal: j}
	c.inventory = inventory.New(c.machine.groups, workload.AdministratorOf(opts.ConfigFile, opts.Config))
	c.lateness = newLateness()
	c.lastPass.Store(int64(opts.Clock()))
	sealed, err := host.Sealed()
	if err != nil {
		opts.Log.Warn("whether the agent's own group can be written is not known", "error", err)
	}
	c.self.Host, c.self.Sealed = host, sealed
	c.capabilities = capabilitiesOf(c)
	c.recall()
	c.pins.answers = statedir.NewAnswers(opts.Config.StateDir, opts.BootID)
	answered, err := c.pins.answers.Recall()
	if err != nil {
		opts.Log.Warn("answers to the runtime ignored", "error", err)
	}
	c.inventory.Recall(answered)
	return c
}

// newReconciler returns the one that brings about what the controller decides.
func (c *controller) newReconciler(host *cgroup.Host, a *apply.Applier, systemd bool) *reconcile.Reconciler {
	return reconcile.New(reconcile.Options{
		Host: host, Journal: c.journal, Applier: a, Systemd: systemd,
		Log: c.opts.Log, Report: c.drifted, Fail: func(what string, err error) { c.fail(what, err) },
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool},
		Movers: map[plan.Owner]func(journal.Entry) bool{plan.OwnerBurst: func(e journal.Entry) bool { return c.keeps(e) }},
	})
}

// askSystemd has systemd asked between two passes: nothing is to wait for the mutex while
// it takes its time.
func (c *controller) askSystemd(units *reconcile.Later) {
	if units != nil {
		c.pins.asking = reconcile.NewAsking(c.reconciler, units, &c.mu, c.opts.Clock)
	}
}

// recall gives the capabilities what an agent of the same boot remembered. A
// checkpoint that cannot be read only costs credit: groups that stand above
// their limit start at 0.
func (c *controller) recall() {
	cp, err := LoadCheckpoint(c.opts.Config.StateDir)
	if err != nil {
		c.opts.Log.Warn("checkpoint ignored", "error", err)
		return
	}
	if cp.BootID != c.opts.BootID {
		return
	}
	for _, one := range c.capabilities {
		if err := one.Recall(cp.Sections); err != nil {
			c.opts.Log.Warn("checkpoint ignored", "error", err)
		}
	}
}

// run turns until ctx ends, then leaves the host to its own limits.
func (c *controller) run(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return c.stop()
		case <-c.opts.Reload:
			c.mu.Lock()
			c.opts.Log.Info("reload")
			c.load()
			c.nextSecond = 0
			c.mu.Unlock()
		case <-c.woken:
			c.hurry()
		case <-c.changed():
			c.hurry()
		case <-timer.C:
		}
		timer.Reset(c.pass())
	}
}

// hurry makes the next pass do what is otherwise done once a second.
func (c *controller) hurry() {
	c.mu.Lock()
	c.nextSecond = 0
	c.mu.Unlock()
}

// pass looks at every group that is due and returns how long to sleep.
func (c *controller) pass() time.Duration {
	due, next := c.secondStep()
	for _, m := range due {
		c.lookStep(m)
	}
	if c.pins.asking.Ask() {
		c.hurry()
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return max(c.nextLook(next)-c.opts.Clock(), 0)
}

// secondStep does what is due once a second, and returns the groups that are to be looked
// at then, and when the next second begins.
func (c *controller) secondStep() (due []*workloadGroup, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Clock()
	c.lastPass.Store(int64(now))
	if now >= c.nextSecond {
		c.everySecond(now)
		c.nextSecond = now + time.Second
	}
	for _, m := range c.order {
		if m.state == StateActive && m.due <= now+shared {
			due = append(due, m)
		}
	}
	return due, c.nextSecond
}

// lookStep looks at one group, unless that was let go meanwhile.
func (c *controller) lookStep(m *workloadGroup) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.state == StateActive {
		c.look(m)
	}
}

// nextLook is when the next look is due, at most the given time.
func (c *controller) nextLook(next time.Duration) time.Duration {
	for _, m := range c.order {
		if m.state == StateActive {
			next = min(next, m.due)
		}
	}
	return next
}

// everySecond does what need not follow a group's period: files, groups that
// come and go, the node guard, the checkpoint.
func (c *controller) everySecond(now time.Duration) {
	if c.watcher.Changed() {
		c.load()
	}
	c.takeCluster()
	c.memorise()
	c.receive()
	c.attachAll(now)
	c.readMachine()
	c.planPins()
	c.gatherPods(now)
	c.writer.LetGo(now)
	if err := c.node.sample(now, c.offlineUse()); err != nil {
		c.fail("node use", err)
	}
	c.pinAll(now)
	c.readAncestors(now)
	c.recheckIdle(now)
	c.share(now)
	c.publish()
	if err := c.journal.Tidy(); err != nil {
		c.fail("journal", err)
	}
	if now >= c.nextCheckpoint {
		c.writeCheckpoint(now)
	}
	c.ready = c.manifestProblem == nil
}

func (c *controller) writeCheckpoint(now time.Duration) {
	c.nextCheckpoint = now + checkpointEvery
	c.forgetGone()
	if c.settled {
		c.forgetPods(c.byName)
	}
	if err := statedir.Save(c.opts.Config.StateDir, checkpointFile, c.checkpoint()); err != nil {
		c.fail("checkpoint", err)
	}
}

// stop puts back what stands above a limit, because no process will be
// there to take it back, and remembers the ledgers.
func (c *controller) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.writeCheckpoint(c.opts.Clock())
	drifted, failed := c.writer.Leave(c.opts.reverts)
	if c.opts.RestoreOnStop {
		c.unpin()
		more, worse := c.writer.Leave(func(plan.Owner) bool { return true })
		drifted, failed = drifted+more, failed+worse
	}
	for _, m := range c.order {
		c.drop(m)
	}
	for _, a := range c.ancestors {
		_ = a.group.Close() // read only: nothing can be lost
	}
	for path := range c.pods {
		c.dropPod(path)
	}
	if err := c.reconciler.Close(); err != nil {
		c.fail("release", err)
	}
	c.opts.Log.Info("agent stopped", "drifted", drifted, "failed", failed)
	switch {
	case failed > 0:
		return fmt.Errorf("put back: %d values: %w", failed, ErrNotRestored)
	case drifted > 0 && c.opts.RestoreOnStop:
		return fmt.Errorf("restore: %d values: %w", drifted, ErrLeftBehind)
	}
	return nil
}
