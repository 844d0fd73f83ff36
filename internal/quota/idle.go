package quota

import (
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/workload"
)

// settleState decides between the states that need no look.
func (q *Groups) settleState(m *Group) {
	switch quota, _, err := m.max.Original().Pair(); {
	case err != nil:
		q.enter(m, burst.StatePending, err.Error())
	case !m.workload.Burst.Wanted():
		q.enter(m, burst.StateOff, offReason(m.workload.Burst))
	case m.group != nil && q.unlimited[m.group.Path()]:
		q.enter(m, burst.StateOff, "it runs without a quota, on exclusive CPUs")
	case quota < 0:
		q.enter(m, burst.StateNoLimit, "the group has no quota: there is nothing to burst over")
	default:
		q.enter(m, burst.StateActive, "")
	}
}

func offReason(b workload.Burst) string {
	if b.Off != nil {
		return b.Off.Error()
	}
	return "policy none"
}

// recheckIdle looks once a second at workload groups that are not looked at otherwise:
// a limit may appear, a policy may change, an offline group's use counts.
func (q *Groups) recheckIdle(now time.Duration) {
	for _, m := range q.order {
		if m.group == nil || m.state == burst.StateActive {
			continue
		}
		b, err := m.group.Bandwidth()
		if err != nil {
			q.suspend(m, err.Error())
			continue
		}
		if m.state != burst.StateDrift && q.writer.Journaled(m.max) {
			q.resume(m, b, now) // it is about to be put back
			continue
		}
		switch q.writer.See(now, m.max, m.writers(), b.Max()) {
		case reconcile.SeenLeft:
			continue
		case reconcile.SeenReturned:
			q.retake(m, b, now)
			continue
		case reconcile.SeenExpected, reconcile.SeenOriginal, reconcile.SeenForeign:
		}
		q.resume(m, b, now)
	}
}
