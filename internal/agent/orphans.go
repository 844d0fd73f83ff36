package agent

import (
	"slices"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/checkpoint"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/orphans"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
)

// orphanedAfter is how long no agent must have run until the next one puts back, before anything else,
// what the last one moved. One that comes sooner goes on with it; in a cluster it lets raised quotas go before the
// runtime has reported the containers (LetGo): nobody looks at what these use until then.
const orphanedAfter = time.Minute

// settleOrphans is putBackOrphans by an Applier that waits for systemd.
func settleOrphans(opts Options, host *cgroup.Host, j *journal.Journal) {
	units := reconcile.NewSystemd()
	defer units.Close()
	putBackOrphans(opts, j, apply.New(driver.Kinds(host, units), j, apply.Options{Now: opts.Now, Records: reconcile.HasSystemd()}))
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
	for _, owner := range orphans.Movers() {
		restore, widen := orphans.Of(j.Entries(), owner, applier.Stands(j.Entries()))
		for _, r := range applier.Apply(plan.Order(applier.Kinds(), widen)) {
			values := []any{"target", r.Change.Target.String(), "from", r.Change.From, "to", r.Change.Value}
			if !r.Applied() {
				opts.Log.Warn("not widened before anything else", append(values, "error", r.Err)...)
				continue
			}
			opts.Log.Info("widened before anything else", values...)
		}
		for _, r := range applier.Restore(restore, false) {
			values := []any{"target", r.Entry.Target.String(), "outcome", r.Outcome, "original", r.Entry.Original, "found", r.Found}
			switch r.Outcome {
			case apply.OutcomeRestored, apply.OutcomeAlready, apply.OutcomeGone:
				opts.Log.Info("put back before anything else", values...)
			default:
				opts.Log.Warn("not put back before anything else", append(values, "error", r.Err)...)
			}
		}
	}
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
