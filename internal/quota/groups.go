package quota

import (
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
)

// Options is what Groups need from their surroundings. Every field is required.
type Options struct {
	Root *hostfs.Root
	// Clock is monotonic, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Slice and Tick are constants of the running kernel.
	Slice unit.Micros
	Tick  time.Duration
	// Fail is called with a failure of the agent's own work, Late with how much later than
	// planned a look came, and Changed when a workload enters another state.
	Fail    func(what string, err error)
	Late    func(time.Duration)
	Changed func()
}

// Groups keeps the quotas of the workload groups where burst decides them: it looks at
// each group when its look is due, lets burst decide, and has it written. It is for one
// goroutine at a time.
type Groups struct {
	opts Options
	roster
	accounts
	// writer writes the quotas, and knows who else does.
	writer    *reconcile.Quotas
	followers followers
	pool      Pool
	// unlimited are the groups that run without a quota because they have exclusive
	// CPUs: burst desires nothing there.
	unlimited map[string]bool
	// worst is how much later than planned a look came at most.
	worst time.Duration
	// waiting are the workloads whose files count once what they name is there.
	waiting []Waiting
}

// New returns the Groups of no workload yet.
func New(opts Options, host *cgroup.Host, writer *reconcile.Quotas) *Groups {
	return &Groups{opts: opts, roster: newRoster(host), accounts: newAccounts(), writer: writer, followers: followers{host, writer}}
}

// Shared is how far apart two looks may be due and still share one wake-up. A look that
// comes early costs nothing; a wake-up does.
const Shared = 10 * time.Millisecond

// Due returns the groups that are to be looked at now.
func (q *Groups) Due(now time.Duration) []*Group {
	var due []*Group
	for _, m := range q.order {
		if m.state == StateActive && m.due <= now+Shared {
			due = append(due, m)
		}
	}
	return due
}

// NextLook is when the next look is due, at most the given time.
func (q *Groups) NextLook(most time.Duration) time.Duration {
	for _, m := range q.order {
		if m.state == StateActive {
			most = min(most, m.due)
		}
	}
	return most
}

// Yield puts the containers of a pod back to their limits at once, without burst, because
// the kubelet is about to resize it: the kernel refuses a quota below the burst, and what
// the pod's spec says by now need not have come here yet.
func (q *Groups) Yield(uid string) {
	now := q.opts.Clock()
	for _, m := range q.order {
		if m.workload.Pod.UID != uid || m.state != StateActive {
			continue
		}
		quota, kernel := m.law.Yield(now)
		var moves []reconcile.Move
		if quota {
			moves = append(moves, m.quotaMove())
		}
		if kernel {
			moves = append(moves, m.burstMove())
		}
		if len(moves) > 0 {
			q.commit(m, now, moves...)
		}
	}
}

// Close remembers the ledgers of all groups, for the checkpoint before it, and closes them.
// What they have stays as it is.
func (q *Groups) Close() {
	for _, m := range q.order {
		q.drop(m)
	}
	for _, a := range q.ancestors {
		_ = a.group.Close() // read only: nothing can be lost
	}
	for path := range q.pods {
		q.dropPod(path)
	}
}

// late takes over how much later than planned a look came.
func (q *Groups) late(by time.Duration) {
	q.worst = max(q.worst, by)
	q.opts.Late(max(by, 0))
}

// Pool is the node guard.
func (q *Groups) Pool() *Pool { return &q.pool }

// Moved says whether workloads came, went or found their groups since it was last asked.
func (q *Groups) Moved() bool {
	moved := q.moved
	q.moved = false
	return moved
}
