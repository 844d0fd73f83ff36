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
// what the last one moved. One that comes sooner goes on with it.
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
	if !orphaned(j.Entries(), last, opts.BootID, opts.Now()) {
		return
	}
	for _, owner := range orphans.Movers() {
		restore, widen := orphans.Of(j.Entries(), owner)
		for _, r := range applier.Apply(plan.Order(applier.Kinds(), widen)) {
			opts.Log.Info("widened before anything else", "target", r.Change.Target.String(), "from", r.Change.From, "to", r.Change.Value, "error", r.Err)
		}
		for _, r := range applier.Restore(restore, false) {
			opts.Log.Info("put back before anything else", "target", r.Entry.Target.String(), "outcome", r.Outcome, "original", r.Entry.Original)
		}
	}
}

// orphaned says that an agent moved something, and was last heard of long ago: by its checkpoint, or by
// when it came to an entry.
func orphaned(entries []journal.Entry, last checkpoint.Checkpoint, boot string, now time.Time) bool {
	heard := time.Time{}
	if last.BootID == boot {
		heard = last.Written
	}
	for _, e := range entries {
		if e.Since.After(heard) {
			heard = e.Since
		}
	}
	moves := func(e journal.Entry) bool { return slices.Contains(orphans.Movers(), e.Owner) }
	return slices.ContainsFunc(entries, moves) && now.Sub(heard) >= orphanedAfter
}
