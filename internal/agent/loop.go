package agent

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/groups"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/manifest"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/self"
	"github.com/berth-project/berth/internal/statedir"
	"github.com/berth-project/berth/internal/workload"
)

// shared is how far apart two looks may be due and still share one wake-up. A
// look that comes early costs nothing; a wake-up does.
const shared = 10 * time.Millisecond

// controller is the agent's loop and what it works on. The mutex guards all of it, but
// for what says otherwise. The HTTP handlers read under it; the container runtime's
// questions and lists, and what the kubelet says, change things under it: between two
// passes, and within one wherever that breathes or asks systemd.
type controller struct {
	opts Options

	mu sync.Mutex
	quotas
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
}

func newController(opts Options, host *cgroup.Host, j *journal.Journal, a *apply.Applier) *controller {
	c := &controller{
		opts:      opts,
		documents: documents{watcher: manifest.NewWatcher(opts.ConfigFile, opts.Config.WorkloadDir)},
		reported:  reported{},
		woken:     make(chan struct{}, 1),
	}
	c.quotas = newQuotas(&c.opts, host, j, a)
	c.pins.reconciler = reconcile.New(reconcile.Options{Host: host, Journal: j, Applier: a, Systemd: reconcile.HasSystemd()})
	c.machine.groups = groups.Groups{Host: host, Journal: j}
	c.inventory = inventory.New(c.machine.groups, workload.AdministratorOf(opts.ConfigFile, opts.Config))
	c.lateness = newLateness()
	c.lastPass.Store(int64(opts.Clock()))
	sealed, err := host.Sealed()
	if err != nil {
		opts.Log.Warn("whether the agent's own group can be written is not known", "error", err)
	}
	c.self.Host, c.self.Sealed = host, sealed
	c.recall()
	c.pins.answers = statedir.NewAnswers(opts.Config.StateDir, opts.BootID)
	answered, err := c.pins.answers.Recall()
	if err != nil {
		opts.Log.Warn("answers to the runtime ignored", "error", err)
	}
	c.inventory.Recall(answered)
	return c
}

// recall takes the ledgers of an agent that ran before in the same boot. A
// checkpoint that cannot be read only costs credit: groups that stand above
// their limit start at 0.
func (c *controller) recall() {
	cp, err := LoadCheckpoint(c.opts.Config.StateDir)
	if err != nil {
		c.opts.Log.Warn("checkpoint ignored", "error", err)
		return
	}
	if cp.BootID == c.opts.BootID && cp.Ledgers != nil {
		c.saved = cp.Ledgers
		maps.Copy(c.started, cp.Started)
		maps.Copy(c.carried, cp.Carried)
		c.machine.kubelet.Recall(cp.Kubelet)
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
	next := c.turn()
	if c.askUnits() {
		return 0
	}
	return next
}

// turn is a pass up to what systemd is to be asked for.
func (c *controller) turn() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.opts.Clock()
	c.lastPass.Store(int64(now))
	if now >= c.nextSecond {
		c.everySecond(now)
		c.nextSecond = now + time.Second
	}
	next := c.nextSecond
	for _, m := range c.order {
		if m.state != StateActive {
			continue
		}
		if m.due <= now+shared {
			c.look(m)
			c.breathe()
		}
		if m.state == StateActive {
			next = min(next, m.due)
		}
	}
	return max(next-c.opts.Clock(), 0)
}

// breathe lets whoever waits for the mutex have it, between two looks: each may wait
// for the disk. The order of the workload groups is the loop's own and does not change.
func (c *controller) breathe() {
	c.mu.Unlock()
	c.mu.Lock()
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
	c.restoreUnwanted(now)
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
	if c.opts.RestoreOnStop {
		c.unpin()
	}
	drifted, failed := c.restoreAll()
	for _, m := range c.order {
		c.drop(m)
	}
	for _, a := range c.ancestors {
		_ = a.group.Close() // read only: nothing can be lost
	}
	for path := range c.pods {
		c.dropPod(path)
	}
	if err := c.pins.reconciler.Close(); err != nil {
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
