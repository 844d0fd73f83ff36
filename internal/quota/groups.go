package quota

import (
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/credit"
	"github.com/berth-project/berth/internal/follower"
	"github.com/berth-project/berth/internal/headroom"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/roster"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// Options is what Groups need from their surroundings. Every field is required.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Slice is how much quota the kernel hands to one CPU now, Tick a constant of the running kernel.
	Slice func() unit.Micros
	Tick  time.Duration
	// Fail is called with a failure of the agent's own work, Late with how much later than planned
	// a look came, Changed when a workload enters another state, Limited with why one is at its limit.
	Fail    func(what string, err error)
	Late    func(time.Duration)
	Changed func()
	Limited func(w *workload.Workload, cause, text string)
}

// Groups keeps the quotas of the workload groups where burst decides them: it looks at each group when its look is
// due, lets burst decide, and has it written. It is for one goroutine at a time.
type Groups struct {
	opts Options
	// roster has the workloads and finds their groups; taken of its changes were taken over.
	roster *roster.Roster
	taken  uint64
	groupSet
	accounts
	// writer writes the quotas, and knows who else does.
	writer    *reconcile.Quotas
	pool      headroom.Pool
	scheduler kernel.Scheduler
	// worst is how much later than planned a look came at most, moved when the shared CPUs changed last.
	worst, moved time.Duration
}

// New returns the Groups of the workloads of a roster, which knows none yet.
func New(opts Options, all *roster.Roster, writer *reconcile.Quotas) *Groups {
	return &Groups{
		opts: opts, roster: all, accounts: accounts{map[string]SavedLedger{}, map[string]credit.Ledger{}}, writer: writer,
		groupSet: groupSet{above: roster.NewAbove(opts.Host), byPath: map[string]*Group{}, pods: map[string]*follower.Pod{}},
	}
}

// Yield puts the containers of a pod back to their limits at once, without burst, because
// the kubelet is about to resize it: the kernel refuses a quota below the burst, and what
// the pod's spec says by now need not have come here yet.
func (q *Groups) Yield(uid string) {
	now := q.opts.Clock()
	for _, m := range q.order {
		if m.workload.Pod.UID != uid || m.state != burst.StateActive {
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

// End takes over which quotas were put back because the agent stops: until there is another one these groups use what
// they use at their limits, and that one must not take it for a burst.
func (q *Groups) End() {
	for _, m := range q.order {
		if m.state == burst.StateActive && !q.writer.Journaled(m.Max) {
			m.law.PutBack()
		}
	}
}

// Close lets go of all groups. What they have stays as it is.
func (q *Groups) Close() {
	for _, m := range q.order {
		q.drop(m)
	}
	q.above.Close()
	for path := range q.pods {
		q.dropPod(path)
	}
}

// Pool is the node guard.
func (q *Groups) Pool() *headroom.Pool { return &q.pool }
