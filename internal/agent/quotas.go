package agent

import (
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/reconcile"
)

// quotas keeps the quotas of the workload groups where burst decides them: it looks at
// each group when its look is due, lets burst decide, and writes.
type quotas struct {
	opts *Options
	roster
	accounts
	counts
	// writer writes the quotas, and knows who else does.
	writer *reconcile.Quotas
	node   *node
	// unlimited are the groups that run without a quota because they have exclusive
	// CPUs: burst desires nothing there.
	unlimited map[string]bool
	// nextCheckpoint is when the checkpoint is due.
	nextCheckpoint time.Duration
}

// newQuotas returns the quotas of no workload yet.
func newQuotas(opts *Options, host *cgroup.Host, r *reconcile.Quotas) quotas {
	return quotas{
		opts: opts, roster: newRoster(host), accounts: newAccounts(), node: newNode(*opts),
		counts: counts{log: opts.Log}, writer: r,
	}
}
