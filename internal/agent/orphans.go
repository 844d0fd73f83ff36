package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/checkpoint"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/inventory"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/orphans"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
)

// orphanedAfter is how long no agent must have run until the next one puts back, before anything else,
// what the last one moved. One that comes sooner goes on with it; in a cluster it lets raised quotas go before the
// runtime has reported the containers (LetGo): nobody looks at what these use until then.
const orphanedAfter = time.Minute

// notBack begins the keys in controller.reported of values that do not go back while the agent is held.
const notBack = "not back: "

// errStays says that a value stays though nothing failed: another program wrote it.
var errStays = errors.New("it stays")

// settling returns an Applier that waits for systemd, and what ends it.
func settling(opts Options, host *cgroup.Host, j *journal.Journal) (*apply.Applier, func()) {
	units := reconcile.NewSystemd()
	return apply.New(driver.Kinds(host, units), j, apply.Options{Now: opts.Now, Records: reconcile.HasSystemd()}), units.Close
}

// putBackOrphans puts back raised quotas and the boundary of offline work, where the agent before this
// one ended long ago without doing so.
func putBackOrphans(opts Options, j *journal.Journal, applier *apply.Applier) {
	last, err := checkpoint.Load(opts.Config.StateDir)
	if err != nil {
		opts.Log.Warn("checkpoint", "error", err)
	}
	if !orphaned(j.Entries(), silence(j.Entries(), last, opts)) {
		return
	}
	back := putBack{
		log: opts.Log.With("when", "before anything else"), journal: j, applier: applier,
		isNew: func(_ string, err error) bool { return err != nil },
	}
	for _, owner := range orphans.Movers() {
		back.owner(owner, func(journal.Entry) bool { return true })
	}
}

// putBack puts back what another agent moved, and logs each value.
type putBack struct {
	log     *slog.Logger
	journal *journal.Journal
	applier *apply.Applier
	// isNew reports whether a problem with a value was not logged yet. A nil error ends that problem.
	isNew func(what string, err error) bool
}

// owner puts back or widens what an owner moved, among the entries for which of is true. It returns how much failed.
func (b putBack) owner(owner plan.Owner, of func(journal.Entry) bool) (failed int) {
	restore, widen := orphans.Of(b.journal.Entries(), owner, b.applier.Stands(b.journal.Entries()))
	for _, r := range b.applier.Apply(plan.Order(b.applier.Kinds(), widen)) {
		failed += b.widened(r)
	}
	for _, r := range b.applier.Restore(func(e journal.Entry) bool { return of(e) && restore(e) }, false) {
		failed += b.restored(r)
	}
	return failed
}

// widened logs what became of a list that was to be widened.
func (b putBack) widened(r apply.Result) (failed int) {
	what := notBack + "widen " + r.Change.Target.String()
	values := []any{"target", r.Change.Target.String(), "from", r.Change.From, "to", r.Change.Value}
	if r.Applied() {
		b.isNew(what, nil)
		b.log.Info("widened", values...)
		return 0
	}
	if !errors.Is(r.Err, apply.ErrChanged) && !errors.Is(r.Err, apply.ErrGone) { // they are another writer's, or nobody's
		failed++
	}
	if b.isNew(what, fmt.Errorf("to %s: %w", r.Change.Value, r.Err)) {
		b.log.Warn("not widened", append(values, "error", r.Err)...)
	}
	return failed
}

// restored logs what became of an entry.
func (b putBack) restored(r apply.Restored) (failed int) {
	what := notBack + "restore " + r.Entry.Target.String()
	values := []any{"target", r.Entry.Target.String(), "outcome", r.Outcome, "original", r.Entry.Original, "found", r.Found}
	switch r.Outcome {
	case apply.OutcomeRestored, apply.OutcomeAlready, apply.OutcomeGone:
		b.isNew(what, nil)
		b.log.Info("put back", values...)
		return 0
	case apply.OutcomeFailed:
		failed++
	}
	if b.isNew(what, fmt.Errorf("%s: found %q: %w", r.Outcome, r.Found, cmp.Or(r.Err, errStays))) {
		b.log.Warn("not put back", append(values, "error", r.Err)...)
	}
	return failed
}

// unmoved is since when this agent is held, if it is: nobody moves the boundary of offline work meanwhile.
type unmoved struct {
	is    bool
	since time.Duration
}

// hold is what is done where too little is known to write lists: what an agent moved goes back once that lasts
// as long as an agent that is away. What comes next may be hours away, as with a runtime that does not report.
func (u *unmoved) hold(c *controller, now time.Duration) {
	if !u.is {
		*u = unmoved{is: true, since: now}
		c.reported.forget(notBack, nil)
	}
	if now-u.since >= orphanedAfter {
		u.since = now // what could not go back is tried again
		letFall(c)
	}
}

// letFall puts back the boundary of offline work and its quota, and says how much failed. It goes by the journal,
// in which the lists of pinned groups are, and needs no container: who is beside a pinned group gets none of its
// CPUs. Precedence and cookies stay: they do not follow the load, and keep online work first. Where another agent
// holds the Lease of the node, its pinned groups are in no journal here, and nothing goes back.
func letFall(c *controller) (failed int) {
	moves := func(e journal.Entry) bool { return e.Owner == plan.OwnerIsolate && follows(e) }
	if !inventory.IsAlone(c.inventory) || len(c.journal.Select(moves)) == 0 {
		return 0
	}
	back := putBack{
		log:     c.opts.Log.With("when", "while nobody moves it: "+c.inventory.Obstacle().Message),
		journal: c.journal, applier: c.opts.settles, isNew: c.reported.isNew,
	}
	return back.owner(plan.OwnerIsolate, follows)
}

// follows says of an entry that its value follows the load.
func follows(e journal.Entry) bool {
	return e.Target.Knob == string(cgroup.KnobCPUs) || e.Target.Knob == string(cgroup.KnobMax)
}

// orphaned says that an agent moved something, and was last heard of long ago.
func orphaned(entries []journal.Entry, silence time.Duration) bool {
	moves := func(e journal.Entry) bool { return slices.Contains(orphans.Movers(), e.Owner) }
	return slices.ContainsFunc(entries, moves) && silence >= orphanedAfter
}

// silence is how long ago an agent was last heard of: by its checkpoint, or by when it came to an entry after
// that. Who sets the wall clock moves it only where no checkpoint has the other clock.
func silence(entries []journal.Entry, last checkpoint.Checkpoint, opts Options) time.Duration {
	var entered time.Time
	for _, e := range entries {
		if e.Since.After(entered) {
			entered = e.Since
		}
	}
	switch since := opts.Clock() - last.Clock; {
	case last.BootID != opts.BootID:
		return opts.Now().Sub(entered)
	case last.Clock == 0 || since < 0:
		return opts.Now().Sub(latest(entered, last.Written))
	default: // the next checkpoint would have come: a longer time is a clock that was set
		return since - min(max(0, entered.Sub(last.Written)), checkpointEvery)
	}
}

// latest returns the later one of two moments.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
