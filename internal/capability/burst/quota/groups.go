package quota

import (
	"log/slog"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/roster"
	"github.com/berth-project/berth/internal/value/unit"
)

// Options are the dependencies of Groups. Every field is required.
type Options struct {
	Root *hostfs.Root
	Host *cgroup.Host
	// Clock is monotonic, Now is the time of day.
	Clock func() time.Duration
	Now   func() time.Time
	Log   *slog.Logger
	// Slice is how much quota the kernel now hands to one CPU, Tick a constant of the running kernel.
	Slice func() unit.Micros
	Tick  time.Duration
	// Fail receives failures of the agent's own work, and Late how much later than planned a check came. Changed is
	// called when a workload enters another state, Limited with the reason why a workload is at its limit.
	Fail    func(what string, err error)
	Late    func(time.Duration)
	Changed func()
	Limited func(w *workload.Workload, cause, text string)
}

// Groups decides the quotas of the workload groups: it checks each group when due, and lets burst decide. The agent
// writes its Moves. Groups is not safe for concurrent use.
type Groups struct {
	opts Options
	// roster has the workloads and finds their groups; taken is the number of its changes processed.
	roster  *roster.Roster
	taken   uint64
	set     groupSet
	ledgers accounts
	// quotas knows what was written, and the other writers.
	quotas    *reconcile.Watch
	pool      headroom.Pool
	scheduler kernel.Scheduler
	// worst is the largest delay of a check, moved the last change of the shared CPUs.
	worst, moved time.Duration
	// moves are to be written, own those of workloads' own groups, by quota.
	moves []reconcile.Move
	own   map[*reconcile.Quota]*Group
}

// New returns the Groups of the workloads of a roster, without groups yet.
func New(opts Options, all *roster.Roster, quotas *reconcile.Watch) *Groups {
	return &Groups{
		opts: opts, roster: all, ledgers: accounts{map[string]SavedLedger{}, map[string]credit.Ledger{}}, quotas: quotas,
		own: map[*reconcile.Quota]*Group{},
		set: groupSet{above: roster.NewAbove(opts.Host), byPath: map[string]*Group{}, pods: map[string]*follower.Pod{}},
	}
}

// Due finds the groups to check now, and returns their number.
func (q *Groups) Due(now time.Duration) int { return q.set.findDue(now) }

// Next returns when the next check is due, at most the given time.
func (q *Groups) Next(most time.Duration) time.Duration { return q.set.next(most) }

// Unasked reports whether the value of a journal entry is burst's, and no workload group asks for it any more.
func (q *Groups) Unasked(e journal.Entry) bool { return e.Owner == plan.OwnerBurst && !q.set.asks(e) }

// Yield moves a pod's containers to their limits at once, without burst, because the kubelet is about to resize the
// pod. The kernel refuses a quota below the burst, and the pod's present spec may not be known here yet.
func (q *Groups) Yield(uid string) {
	now := q.opts.Clock()
	for _, m := range q.set.order {
		if m.workload.Pod.UID != uid || m.state != burst.StateActive {
			continue
		}
		quota, kernel := m.law.Yield(now)
		var own []reconcile.Move
		if quota {
			own = append(own, m.quotaMove())
		}
		if kernel {
			own = append(own, m.burstMove())
		}
		if len(own) > 0 {
			q.move(m, own...)
		}
	}
}

// Ended records which quotas were restored because the agent stops. Until another agent starts, these groups use their
// limits only, and that agent must not treat the use as a burst.
func (q *Groups) Ended() {
	for _, m := range q.set.order {
		if m.state == burst.StateActive && !q.quotas.Journaled(m.Max) {
			m.law.PutBack()
		}
	}
}

// Close releases all groups. Their values stay as they are.
func (q *Groups) Close() {
	for _, m := range q.set.order {
		q.drop(m)
	}
	q.set.above.Close()
	for path := range q.set.pods {
		q.set.dropPod(path)
	}
}
