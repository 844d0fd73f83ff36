package quota

import (
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// sample reads how busy the machine was since the last sample. Time on reserved CPUs is counted as used: the guard must
// not promise it.
func (q *Groups) sample(now time.Duration) error {
	busy, err := kernel.CPUBusy(q.opts.Root)
	if err != nil {
		return err
	}
	q.pool.Sample(now, busy, q.set.apart.Used(now, q.roster.Entries(), q.set.unlimited, q.set.reserved))
	return nil
}

// share gives the active workload groups their outside bounds: the quotas above them, and their part of the node's
// headroom.
func (q *Groups) share(now time.Duration) {
	if err := q.scheduler.Look(q.opts.Root, now); err != nil {
		q.opts.Fail("scheduler of the kernel", err)
	}
	groups, bounds := make([]*burst.Group, 0, len(q.set.order)), q.set.bounds()
	for _, m := range q.set.order {
		if m.state != burst.StateActive {
			continue
		}
		m.law.TakeCap(now, bounds, m.Group.Path())
		m.ancestorThrottled = q.set.above.Throttled(m.Group.Ancestors()...)
		m.law.Resizing = m.workload.Pod.UID != "" && m.otherSpec()
		m.law.Facts.SchedExt = q.scheduler.Name
		groups = append(groups, &m.law)
	}
	burst.Divide(&q.pool, now, groups)
	for _, m := range q.set.order {
		if m.state == burst.StateActive && m.law.MustLower() {
			m.due = now
		}
	}
}
