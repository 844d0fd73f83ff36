package pinning

import (
	"fmt"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// restore puts back what has no wish any more. That comes after the wishes: who has
// to leave has left by then.
func (k *Keeper) restore() {
	if !k.stale && (len(k.left) == 0 || k.now < k.leftAt) {
		return
	}
	k.stale, k.leftAt = false, k.now+lastRetry
	told := k.left
	k.left = map[plan.Target]bool{}
	for _, r := range k.opts.Applier.Restore(k.unwished, false) {
		if r.Outcome == apply.OutcomeRestored {
			k.report.Restored++
		}
		if r.Err != nil && !told[r.Entry.Target] {
			k.fail(r.Err)
		}
		if r.Outcome != apply.OutcomeDrifted && r.Outcome != apply.OutcomeFailed {
			continue
		}
		k.left[r.Entry.Target] = true
		if r.Outcome == apply.OutcomeDrifted && !told[r.Entry.Target] {
			k.report.News = append(k.report.News, leftBehind(r))
		}
	}
}

// leftBehind says that somebody else's value is not put back over.
func leftBehind(r apply.Restored) News {
	return News{
		Group: r.Entry.Target.Group, Workload: r.Entry.Workload, Reason: HostDrift,
		Text: fmt.Sprintf("%s is %q and stays so: Berth had %q and found %q", r.Entry.Target, r.Found, r.Entry.Intent, r.Entry.Original),
	}
}

// unwished says that an entry is of this package and nothing is wished of its target.
func (k *Keeper) unwished(e journal.Entry) bool {
	if e.Owner != plan.OwnerPlace && e.Owner != plan.OwnerPool {
		return false
	}
	m := k.members[e.Target.Group]
	return m == nil || !m.wish.wants(e.Target.Knob)
}
