package agent

import (
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/reconcile"
)

// quotas keeps the quotas of the workload groups where burst decides them: it looks at
// each group when its look is due, lets burst decide, and writes.
type quotas struct {
	opts *Options
	roster
	accounts
	writer
	node *node
	// unlimited are the groups that run without a quota because they have exclusive
	// CPUs: burst desires nothing there.
	unlimited map[string]bool
	// nextCheckpoint is when the checkpoint is due.
	nextCheckpoint time.Duration
}

// writer writes to the groups, and goes by the journal where another program wrote.
type writer struct {
	journal *journal.Journal
	applier *apply.Applier
	// unrestored is what could not be put back.
	unrestored reconcile.Unrestored
	counts
}

// newQuotas returns the quotas of no workload yet.
func newQuotas(opts *Options, host *cgroup.Host, j *journal.Journal, a *apply.Applier) quotas {
	return quotas{
		opts: opts, roster: newRoster(host), accounts: newAccounts(), node: newNode(*opts),
		writer: writer{journal: j, applier: a, counts: counts{log: opts.Log}},
	}
}
