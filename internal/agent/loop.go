package agent

import (
	"cmp"
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/metrics"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/place/assignment"
	"github.com/berth-project/berth/internal/capability/place/hardware"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/groups"
	"github.com/berth-project/berth/internal/node/inventory"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// controller is the agent's loop and its state. The mutex guards all fields unless a comment says otherwise. A step
// locks it once, and never unlocks it before its end. Steps are the work of once a second, a look at one group, an
// answer to the container runtime, and a list of its containers. A reading of the kubelet and an answer over HTTP,
// which only reads, are steps too. Requests to systemd run beside the steps. Steps may come in any order, so a step
// compares what an earlier step found before it relies on it.
type controller struct {
	opts Options

	mu      sync.Mutex
	counts  counts
	host    *cgroup.Host
	journal *journal.Journal
	// reconciler applies the decisions.
	reconciler *reconcile.Reconciler
	documents  documents
	cluster    clusterState
	// inventory is what runs here, assignment which of it has which CPUs.
	inventory  *inventory.Inventory
	assignment *assignment.Assignment
	beside     beside
	// hardware is the machine, as its kubelet divides it.
	hardware *hardware.Node
	// reported has the reported problems that still exist.
	reported reported

	woken   chan struct{} // makes the loop run at once
	turns   turns
	windows windows
	built   built
	// capabilities decide in this order. They are also measured and remembered. reporting has the same ones in the order
	// of their reports.
	capabilities, reporting []capability.Capability
}

// turns are the due times of the loop's work.
type turns struct {
	nextSecond time.Duration
	// nextCheckpoint is when the checkpoint is due.
	nextCheckpoint time.Duration
	unmoved        unmoved
	ended          bool // set by stop: nothing is decided or written any more
	// wide are the memory nodes that place desired in the last round for groups whose pages must move first.
	wide map[string]cpuset.Set
	// pods has the UID of the pod of each group whose CPUs place decides.
	pods map[string]string
}

// beside are the writers that run beside the loop. asking asks systemd, and is nil without systemd. aside writes memory
// nodes, and is nil where the loop writes them.
type beside struct {
	asking *systemd.Asking
	aside  *cgroupfile.Aside
}

// writing is how an agent writes to the host.
type writing struct {
	// applier is the only writer. systemd means that it reaches systemd.
	applier *apply.Applier
	systemd bool
	// units are the requests to systemd that wait for the end of a pass, and aside writes memory nodes. Where they are
	// nil, the loop waits.
	units *systemd.Later
	aside *cgroupfile.Aside
}

func newController(opts Options, host *cgroup.Host, j *journal.Journal, w writing) *controller {
	c := &controller{
		opts: opts, host: host, journal: j,
		counts:    counts{log: opts.Log, now: opts.Now, work: metrics.NewWork()},
		documents: documents{watcher: manifest.NewWatcher(opts.ConfigFile, opts.Config.WorkloadDir)},
		reported:  reported{},
		woken:     make(chan struct{}, 1),
	}
	all := &groups.Groups{Host: host, Journal: j}
	c.inventory = inventory.New(all, workload.AdministratorOf(opts.ConfigFile, opts.Config))
	c.assignment = assignment.New(c.inventory)
	c.hardware = hardware.NewNode(hardware.Options{
		Root: opts.Root, Log: opts.Log, Fail: c.counts.fail, Effective: all.EffectiveCPUs,
		Invalid: func(err error) { c.reportOnce("node labels", "", err) },
	})
	c.documents.roster = roster.New(roster.Options{Host: host, Log: opts.Log, Fail: c.counts.fail})
	c.reconciler = newReconciler(c, w)
	c.beside = beside{aside: w.aside}
	if w.units != nil {
		c.beside.asking = systemd.NewAsking(c.reconciler, w.units, &c.mu, opts.Clock)
	}
	c.built = built{offline: newWork(c, all), pins: newSets(c, all), burst: newQuotas(c)}
	c.windows.past = history.New(history.In(opts.Config.StateDir, opts.Config.History, opts.Log))
	c.windows.recorder = history.NewRecorder(c.windows.past)
	c.windows.lastPass.Store(int64(opts.Clock()))
	c.capabilities = capabilitiesOf(c)
	c.reporting = byName(c.capabilities)
	c.recall()
	return c
}

// newReconciler returns the reconciler, which applies the decisions.
func newReconciler(c *controller, w writing) *reconcile.Reconciler {
	return reconcile.New(reconcile.Options{
		Host: c.host, Journal: c.journal, Applier: w.applier, Systemd: w.systemd,
		Log: c.opts.Log, Report: c.counts.drifted, Fail: c.counts.fail, Owners: c.opts.settled(),
		Answered: func(group string, mems bool, list cpuset.Set) bool {
			return inventory.IsAnswer(c.inventory, group, mems, list)
		},
		Held: inProfiles(c.opts, func(err error) {
			if c.reported.isNew("the journal of host profiles", err) {
				c.opts.Log.Warn("not all lists may be written", "reason", err)
			}
		}),
	})
}

// recall gives the capabilities the state of an earlier agent of the same boot. A checkpoint that cannot be read only
// costs credit: groups above their limit start at 0.
func (c *controller) recall() {
	cp, err := checkpoint.Load(c.opts.Config.StateDir)
	if err != nil {
		c.opts.Log.Warn("checkpoint ignored", "error", err)
		return
	}
	if cp.BootID != c.opts.BootID {
		return
	}
	var started map[string]map[int]uint64
	if err := cp.Sections.Decode(keyStarted, &started); err != nil {
		c.opts.Log.Warn("checkpoint ignored", "error", err)
	}
	var groups map[string]string
	c.documents.held, groups = heldBy(cp.Workloads, started)
	c.documents.roster.Recall(started, groups)
	for _, one := range c.capabilities {
		if err := one.Recall(cp.Sections); err != nil {
			c.opts.Log.Warn("checkpoint ignored", "error", err)
		}
	}
}

// run runs passes until ctx ends, then leaves the host to its own limits.
func (c *controller) run(ctx context.Context) error {
	var asking sync.WaitGroup
	asking.Go(func() {
		c.beside.asking.Run(ctx, func() {
			c.turns.nextSecond = 0
			c.wake()
		})
	})
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			asking.Wait() // No request to systemd may come after stop restores values.
			return c.stop()
		case <-c.opts.Reload:
			c.mu.Lock()
			c.opts.Log.Info("reload")
			c.load()
			c.turns.nextSecond = 0
			c.mu.Unlock()
		case <-c.woken:
			c.makeDue()
		case <-c.cluster.changed():
			c.makeDue()
		case <-timer.C:
		}
		timer.Reset(c.pass())
	}
}

// makeDue makes the next pass do the work of once a second.
func (c *controller) makeDue() {
	c.mu.Lock()
	c.turns.nextSecond = 0
	c.mu.Unlock()
}

// wake makes the loop run at once.
func (c *controller) wake() {
	select {
	case c.woken <- struct{}{}:
	default:
	}
}

// pass looks at every group that is due and returns how long to sleep.
func (c *controller) pass() time.Duration {
	c.beside.asking.Begin()
	now, next := c.secondStep()
	each(c, func(l looker) {
		c.mu.Lock()
		due := l.Due(now)
		c.mu.Unlock()
		for i := range due {
			c.lookStep(l, i)
		}
	})
	c.beside.asking.End()
	c.mu.Lock()
	defer c.mu.Unlock()
	each(c, func(w waker) { next = w.Next(next) })
	return max(next-c.opts.Clock(), 0)
}

// secondStep does the work that is due once a second. It returns when it began, and when the next second begins.
func (c *controller) secondStep() (now, next time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now = c.opts.Clock()
	c.inventory.Now(now)
	c.windows.lastPass.Store(int64(now))
	due := now >= c.turns.nextSecond
	each(c, func(p pacer) { due = p.Turn(now) || due })
	if due {
		failures := c.counts.failures
		c.everySecond(now)
		c.counts.stepped("second", c.opts.Clock()-now, failures)
		c.turns.nextSecond = now + time.Second
	}
	return now, c.turns.nextSecond
}

// lookStep looks at one group.
func (c *controller) lookStep(l looker, i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	began, failures := c.opts.Clock(), c.counts.failures
	l.Look(i)
	moveQuotas(c)
	c.counts.stepped("look", c.opts.Clock()-began, failures)
}

// moveQuotas writes the moves of quotas that the capabilities decided.
func moveQuotas(c *controller) {
	each(c, func(m quotaMover) {
		if moves := m.Moves(); len(moves) > 0 {
			now := c.opts.Clock()
			c.reconciler.Quotas().Set(now, moves...)
			m.Wrote(now)
		}
	})
}

// observe returns the facts of a round.
func observe(c *controller, now time.Duration) *capability.Node {
	n := &capability.Node{
		Now: now, Config: &c.opts.Config, Online: c.hardware.CPUs.Online,
		Isolated: c.hardware.CPUs.Isolated.Union(c.hardware.Partitioned()),
		Topology: c.inventory.Topology(), Obstacle: c.inventory.Obstacle(), Koordlet: c.inventory.Policies.Koordlet(),
		Containers: c.assignment.Running(), Exclusive: c.assignment.Exclusive(), HasOffline: c.assignment.HasOffline(),
		Policies: c.inventory.Policies.Observed(), Wide: c.turns.wide,
	}
	n.Present, n.OfflinePods = c.inventory.Here()
	return n
}

// urgently is the Reconciler for an answer to the runtime: the answer waits until systemd was asked for the group
// (Asking.Await).
type urgently struct{ loop *controller }

// Record journals what the container runtime is about to write.
func (u urgently) Record(desired []plan.Desired) error { return u.loop.reconciler.Record(desired) }

// Urgent writes the desired settings of one group at once.
func (u urgently) Urgent(group string, desired []plan.Desired) {
	if u.loop.reconciler.Urgent(group, desired) {
		u.loop.beside.asking.Urgent(group)
	}
}

// Standing returns what the reconciler leaves on the host.
func (u urgently) Standing() reconcile.Standing { return u.loop.reconciler.Standing() }

// decide lets the capabilities decide in their order, and applies their desired settings.
func (c *controller) decide(now time.Duration) {
	n := observe(c, now)
	c.opts.narrowing.Take(n.Containers)
	var all capability.Decision
	for _, one := range c.capabilities {
		if d, decides := one.(capability.Decider); decides {
			decided := d.Decide(n)
			if n.Obstacle.Restores() && !decided.Unjournaled {
				decided.Settings = nil // those values are restored through the journal
			}
			all.Add(decided)
		}
	}
	moveQuotas(c)
	each(c, func(m quotaMover) { c.reconciler.Quotas().LetGo(now, m.Unasked) })
	c.turns.wide, c.turns.pods = n.Wide, n.Pods
	for _, group := range all.Touched {
		c.reconciler.Touch(group)
	}
	switch {
	case all.Held:
		c.turns.unmoved.hold(c, now)
	case !c.beside.asking.IsAsking():
		c.bring(now, all.Settings)
	}
	c.turns.unmoved.is = all.Held
	for _, e := range all.Events {
		c.report(e.PodUID, e.Reason, e.Text, e.Warning)
	}
	for _, a := range all.Annotations {
		if p := c.inventory.Pods.Pod(a.PodUID); c.cluster.connected != nil && p != nil && p.Object.UID != "" {
			c.cluster.connected.client.Annotate(p.Object, a.Key, &a.Value)
		}
	}
}

// bring applies the desired settings to the host.
func (c *controller) bring(now time.Duration, desired []plan.Desired) {
	if !c.reconciler.Wanted(desired) {
		c.reconciler.Want(desired)
	}
	each(c, shrinker.Shrink)
	report, _ := c.reconciler.Pass(now)
	c.inventory.Saw(report.CPUs)
	each(c, func(o observer) { o.Saw(now, &report) })
	for _, e := range report.Events {
		if e.Reason == v1alpha1.EventHostDrift {
			c.counts.work.Drifted()
		}
		c.report(cmp.Or(c.turns.pods[e.Group], observed.PodOf(c.assignment.Running(), e.Group)), e.Reason, e.Text, true)
	}
	c.counts.failEach(report.Errors)
}

// everySecond does the work that need not follow a group's period: files, groups that come and go, the node guard, the
// checkpoint.
func (c *controller) everySecond(now time.Duration) {
	if c.documents.watcher.Changed(c.opts.Now()) {
		c.load()
	}
	c.takeCluster()
	c.memorise()
	c.receive()
	c.documents.roster.Find(now)
	c.readMachine(now)
	if c.cluster.connected == nil {
		c.documents.standalone.take(c, now)
	}
	c.decide(now)
	c.windows.recorder.Record(now, c.opts.Now(), c.capabilities)
	c.publish()
	if err := c.journal.Tidy(); err != nil {
		c.counts.fail("journal", err)
	}
	if now >= c.turns.nextCheckpoint {
		c.writeCheckpoint(now)
	}
	c.windows.ready = c.documents.manifestProblem == nil
}

// readMachine reads the present CPUs of the host and its bandwidth slice, and passes the consequences on.
func (c *controller) readMachine(now time.Duration) {
	c.opts.readSlice()
	reserved, _ := cpuset.Parse(c.opts.Config.ReservedCPUs) // checked when read
	if facts, changed := c.hardware.Read(now, reserved, c.cluster.node()); changed {
		c.assignment.SetFacts(facts)
		c.cluster.stale = true
	}
}

func (c *controller) writeCheckpoint(now time.Duration) {
	c.turns.nextCheckpoint = now + checkpointEvery
	each(c, func(r rememberer) { r.Forget(c.cluster.settled) })
	if err := c.checkpoint().Save(c.opts.Config.StateDir); err != nil {
		c.counts.fail("checkpoint", err)
	}
}

// lastLooks bounds all checks of memory policies when an agent stops with RestoreOnStop: Kubernetes and systemd kill
// the agent 30 s after the stop begins.
const lastLooks = 10 * time.Second

// stop ends the boundary, restores values above a limit, because no process will be there to move either, and saves the
// ledgers.
func (c *controller) stop() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.turns.ended = true
	c.beside.asking.AtOnce()               // there is no next pass
	c.turns.unmoved.since = c.opts.Clock() // letFall restores the lists below, after the quotas
	if each(c, ender.End); !c.opts.RestoreOnStop {
		c.decide(c.opts.Clock())
	}
	c.writeCheckpoint(c.opts.Clock())
	quotas, infos := c.reconciler.Quotas(), infosOf(c.opts)
	ends := func(e journal.Entry) bool { // not lists: the original could put the group on exclusive CPUs of other groups
		return e.Target.Knob != string(cgroup.KnobCPUs) && capability.Reverts(infos, e.Owner)
	}
	drifted, failed := quotas.Leave(ends)
	if c.turns.unmoved.is { // the lists were not restored by decide
		c.reported.forget(notBack, nil) // the end names all values that stay
		failed += letFall(c)
	}
	each(c, closer.Ended)
	c.writeCheckpoint(c.opts.Clock()) // again: a kill in between leaves the first checkpoint
	if c.opts.RestoreOnStop {
		looking, cancel := context.WithTimeout(context.Background(), lastLooks)
		defer cancel()
		c.beside.aside.AtOnce(c.opts.narrowing.Within(looking))
		c.reconciler.Want(nil)
		report, _ := c.reconciler.Pass(c.opts.Clock())
		c.counts.failEach(report.Errors)
		more, worse := quotas.Leave(func(e journal.Entry) bool { return !ends(e) })
		drifted, failed = drifted+more, failed+worse
	}
	each(c, closer.Close)
	c.documents.roster.Close()
	if err := c.reconciler.Close(); err != nil {
		c.counts.fail("release", err)
	}
	c.beside.aside.Wait()
	c.opts.Log.Info("agent stopped", "drifted", drifted, "failed", failed)
	switch {
	case failed > 0:
		return fmt.Errorf("put back: %d values: %w", failed, ErrNotRestored)
	case drifted > 0 && c.opts.RestoreOnStop:
		return fmt.Errorf("restore: %d values: %w", drifted, ErrLeftBehind)
	}
	return nil
}
