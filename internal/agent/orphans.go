package agent

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/agent/checkpoint"
	"github.com/berth-project/berth/internal/agent/orphans"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/systemd"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/node/inventory"
)

// orphanedAfter is the time without an agent after which the next agent first restores what the last one moved. An
// agent that starts sooner continues with it. In a cluster that agent restores raised quotas before the runtime has
// reported the containers (LetGo): nobody measures their use until then.
const orphanedAfter = time.Minute

// notBack is the prefix of keys in controller.reported for values that could not be restored while the agent is held.
const notBack = "not back: "

// errStays means that a value stays though nothing failed: another program wrote it.
var errStays = errors.New("it stays")

// settling returns an Applier that waits for systemd, and a function that closes it.
func settling(opts Options, host *cgroup.Host, j *journal.Journal) (*apply.Applier, func()) {
	units := systemd.New()
	return apply.New(driver.Kinds(host, units), j, apply.Options{Now: opts.Now, Records: systemd.Runs()}), units.Close
}

// putBackOrphans restores raised quotas and the boundary of offline work, if the last agent ended long ago without
// restoring them.
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

// putBack restores what another agent moved, and logs each value.
type putBack struct {
	log     *slog.Logger
	journal *journal.Journal
	applier *apply.Applier
	// isNew reports whether a problem with a value was not logged yet. A nil error ends that problem.
	isNew func(what string, err error) bool
}

// owner restores or widens what an owner moved, among the entries for which of is true. It returns the number of
// failures.
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

// widened logs the result of widening a list.
func (b putBack) widened(r apply.Result) (failed int) {
	what := notBack + "widen " + r.Change.Target.String()
	values := []any{"target", r.Change.Target.String(), "from", r.Change.From, "to", r.Change.Value}
	if r.Applied() {
		b.isNew(what, nil)
		b.log.Info("widened", values...)
		return 0
	}
	if !errors.Is(r.Err, apply.ErrChanged) && !errors.Is(r.Err, apply.ErrGone) { // the value belongs to another writer, or the group is gone
		failed++
	}
	if b.isNew(what, fmt.Errorf("to %s: %w", r.Change.Value, r.Err)) {
		b.log.Warn("not widened", append(values, "error", r.Err)...)
	}
	return failed
}

// restored logs the outcome of an entry.
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

// unmoved tells whether and since when this agent is held. While it is, nobody moves the boundary of offline work.
type unmoved struct {
	is    bool
	since time.Duration
}

// hold handles a time in which too little is known to write lists. After orphanedAfter it restores what an agent moved,
// as if the agent were away. The next decision may be hours away, as with a runtime that does not report.
func (u *unmoved) hold(c *controller, now time.Duration) {
	if !u.is {
		*u = unmoved{is: true, since: now}
		c.reported.forget(notBack, nil)
	}
	if now-u.since >= orphanedAfter {
		u.since = now // failed values are tried again
		letFall(c)
	}
}

// letFall restores the boundary of offline work and its quota, and returns the number of failures. It uses only the
// journal, which has the lists of pinned groups: no other group gets CPUs of a pinned group. Precedence and cookies
// stay: they do not follow the load, and prefer online work. If another agent holds the Lease of the node, this journal
// does not have the pinned groups of that agent, and nothing is restored.
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

// follows reports whether the value of an entry follows the load.
func follows(e journal.Entry) bool {
	return e.Target.Knob == string(cgroup.KnobCPUs) || e.Target.Knob == string(cgroup.KnobMax)
}

// orphaned reports whether an agent moved something and has been silent for long.
func orphaned(entries []journal.Entry, silence time.Duration) bool {
	moves := func(e journal.Entry) bool { return slices.Contains(orphans.Movers(), e.Owner) }
	return slices.ContainsFunc(entries, moves) && silence >= orphanedAfter
}

// silence returns the time since the last sign of an agent: its checkpoint, or a later journal entry. A change of the
// wall clock affects it only if the checkpoint lacks the monotonic clock.
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
	default: // the next checkpoint bounds the difference: a longer time means that the clock was set
		return since - min(max(0, entered.Sub(last.Written)), checkpointEvery)
	}
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}
