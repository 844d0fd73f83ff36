package reconcile

import (
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
)

// kept is what is remembered of one target at which Berth keeps a value.
type kept struct {
	// ours is the value that the next check should find: Berth last wrote it, answered it to the runtime, or accepted
	// it. It is "" before the first of these. before is the value at the time of an answer, which may still be there.
	ours, before plan.Value
	// overwritten is the last value of another writer that Berth overwrote.
	overwritten plan.Value
	conflict    Conflict
}

// found is a value in effect that a check found at a target.
type found struct {
	at     time.Duration
	kinds  plan.Kinds
	target plan.Target
	value  plan.Value
	// entry is the journal's entry of the target, if it is known.
	entry journal.Entry
	known bool
	// isLike reports whether the host made the value of a value of Berth's. It may be nil.
	isLike func(ours plan.Value) bool
	// expected means that the value is no conflict, however often another program writes it.
	expected bool
}

// original reports whether the value is the journal's original.
func (f *found) original() bool { return f.known && f.entry.IsOriginal(f.kinds, f.value) }

// journaled reports whether the value is the journal's original or Berth's.
func (f *found) journaled() bool { return f.original() || f.known && f.entry.IsOurs(f.kinds, f.value) }

func (f *found) is(ours plan.Value) bool {
	return f.kinds.Same(f.target, f.value, ours) || f.isLike != nil && f.isLike(ours)
}

// isForeign reports whether another program wrote the value. Without a value of Berth's own the journal decides.
func (k *kept) isForeign(f *found) bool {
	switch {
	case k.conflict.Left() != "":
		return true
	case k.ours == "":
		return f.known && !f.journaled()
	}
	return !f.is(k.ours) && (k.before == "" || !f.kinds.Same(f.target, f.value, k.before))
}

// mayWrite reports whether Berth may overwrite the value, and whether another program wrote it.
func (k *kept) mayWrite(f *found) (may, foreign bool) {
	foreign = k.isForeign(f)
	may = k.conflict.mayReplace(f.at, f.value, foreign, f.expected, f.original())
	if may && foreign && !f.expected {
		k.overwritten = f.value
	}
	return may, foreign
}

// mayOverwrite reports whether Berth may overwrite the value.
func (k *kept) mayOverwrite(f *found) bool {
	may, _ := k.mayWrite(f)
	return may
}

// progress is how far the desired settings of an object are in effect, and when the next check is due.
type progress struct {
	state  State
	reason string
	// due is the latest time of the next check, retry the delay after a failure.
	due   time.Duration
	retry Retry
	// reported is the cause of the last reported failure.
	reported string
}

// rests ends a failure. The next check is due at a time.
func (p *progress) rests(due time.Duration) { p.due, p.retry, p.reported = due, Retry{}, "" }

// fails delays the next check. It reports whether people must learn of the failure: only at the second try, since the
// first try may have come too early, and only once for each cause.
func (p *progress) fails(now time.Duration, cause string) (isNew bool) {
	if p.state == StateFailed && p.reported != cause && p.retry.Again() {
		p.reported, isNew = cause, true
	}
	p.retry.Failed(now, LastRetry)
	p.due = p.retry.At()
	return isNew
}

// write makes changes in the order of package plan.
func (o *Options) write(changes []plan.Change) []apply.Result {
	return o.Applier.Apply(plan.Order(o.Applier.Kinds(), changes))
}
