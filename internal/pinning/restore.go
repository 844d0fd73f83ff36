package pinning

import (
	"errors"
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// leftover is what could not be put back: told says that it was told, deferred is the unit
// that it was left to systemd for, the one of the journal, "" for none.
type leftover struct {
	told     bool
	deferred string
}

// restore puts back what has no wish any more. That comes after the wishes: who has
// to leave has left by then.
func (k *Keeper) restore() {
	if !k.stale && (len(k.left) == 0 || k.now < k.leftAt) {
		return
	}
	k.stale, k.leftAt = false, k.now+lastRetry
	told := k.left
	k.left = map[plan.Target]leftover{}
	for _, r := range k.opts.Applier.Restore(k.unwished, false) {
		k.takeRestored(r, told[r.Entry.Target].told)
	}
}

// takeRestored takes over what became of an entry. told says that its fault was told
// before.
func (k *Keeper) takeRestored(r apply.Restored, told bool) {
	if r.Outcome == apply.OutcomeRestored {
		k.report.Restored++
	}
	if errors.Is(r.Err, apply.ErrDeferred) {
		k.left[r.Entry.Target], k.leftAt = leftover{told: told, deferred: cgroupfile.Unit(r.Entry.Target)}, k.now // the next pass has the answer
		return
	}
	if r.Err != nil && !told {
		k.fail(r.Err)
	}
	if r.Outcome != apply.OutcomeDrifted && r.Outcome != apply.OutcomeFailed {
		return
	}
	k.left[r.Entry.Target] = leftover{told: true}
	if r.Outcome == apply.OutcomeDrifted && !told {
		k.report.News = append(k.report.News, leftBehind(r))
	}
}

// leftBehind says that somebody else's value is not put back over.
func leftBehind(r apply.Restored) News {
	return News{
		Group: r.Entry.Target.Object, Workload: r.Entry.Workload, Reason: v1alpha1.EventHostDrift,
		Text: fmt.Sprintf("%s is %q and stays so: Berth had %q and found %q", r.Entry.Target, r.Found, r.Entry.Intent, r.Entry.Original),
	}
}

// unwished says that an entry is of this package and nothing is wished of its target.
func (k *Keeper) unwished(e journal.Entry) bool {
	if e.Owner != plan.OwnerPlace && e.Owner != plan.OwnerPool {
		return false
	}
	return !k.wished(e.Target)
}

// wished says that something is wished of a knob of a group.
func (k *Keeper) wished(t plan.Target) bool {
	m := k.members[t.Object]
	return m != nil && m.wish.wants(cgroupfile.Knob(t))
}
