package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// Quota is cpu.max or cpu.max.burst of one group whose value its owner, such as package quota, changes from check to
// check. It has the current value, the value without Berth, and the state of other writers. The owner reads the file
// when it checks the group anyway; Watch says what a different value means (See), and Quotas writes (Set). Quotas never
// overwrites a value on its own: every write of a quota refills the group's pool, and only the owner knows when that is
// paid for.
type Quota struct {
	// setting has the target, the identity, the owner and the workload.
	setting plan.Setting
	// kept has as ours the value last seen or written. The specification may still confirm an overwritten value.
	kept
	// original is the group's value when Berth leaves.
	original cgroup.Value
	// unsettled means that a new original is not in the journal yet.
	unsettled bool
	// raising and lowering delay a write after a refused write of the same kind: a full disk must not delay the
	// restoration of the limit.
	raising, lowering Retry
	err               error
	problem           string
	writes, failures  uint64
}

// Watch judges the values that the checks of moving quotas find. It writes nothing to the host; a resize becomes the
// original in the journal. It is for one goroutine at a time, the same as its Reconciler's.
type Watch struct {
	opts       *Options
	unrestored *Unrestored
}

// Quotas writes the moving quotas, and restores them. Its Watch is for the owner of the quotas, which only decides.
type Quotas struct{ Watch }

// Quotas returns the interface for values that change from check to check.
func (r *Reconciler) Quotas() *Quotas { return &Quotas{Watch{&r.opts, &r.unrestored}} }

func (all *Watch) kinds() plan.Kinds { return all.opts.Applier.Kinds() }

// Seen is the result of a check of a quota.
type Seen int

const (
	// SeenExpected means a value that Berth wrote, or the original.
	SeenExpected Seen = iota
	// SeenOriginal means that a new original is in effect, or known now.
	SeenOriginal
	// SeenForeign means another writer's value that may be overwritten.
	SeenForeign
	// SeenLeft means another writer's value that is left to its writer.
	SeenLeft
	// SeenReturned means that Berth may again move a value that was left.
	SeenReturned
)

// Quota returns the state of a quota that is checked from now on, given its current value. The setting has no value.
func (all *Watch) Quota(s plan.Setting, w plan.Writers, have cgroup.Value) *Quota {
	q := &Quota{setting: s, original: have, kept: kept{ours: plan.Value(have), conflict: conflictOf(w)}}
	if e, known := all.entry(q); known {
		q.original, q.ours = cgroup.Value(e.Original), plan.Value(expected(e, have))
	}
	q.scale(have)
	return q
}

// expected returns the journal's value that equals have. If none does it returns the last intended value: a crash may
// have come between intent and write.
func expected(e journal.Entry, have cgroup.Value) cgroup.Value {
	for _, v := range []plan.Value{e.Intent, e.Previous, e.Original} {
		if v != "" && cgroup.Same(cgroupfile.Knob(e.Target), cgroup.Value(v), have) {
			return cgroup.Value(v)
		}
	}
	return cgroup.Value(e.Intent)
}

// entry returns the journal's entry for q if it has the same group and owner: a quota that was made unlimited for
// exclusive CPUs is not the group's own limit.
func (all *Watch) entry(q *Quota) (journal.Entry, bool) {
	e, known := all.opts.Journal.Entry(q.setting.Target)
	return e, known && e.ID == q.setting.ID && e.Owner == q.setting.Owner
}

// Journaled reports whether Berth has written the quota, and not restored it yet.
func (all *Watch) Journaled(q *Quota) bool {
	_, known := all.entry(q)
	return known
}

// IsOthers reports whether the journal has the quota for another owner than q's.
func (all *Watch) IsOthers(q *Quota) bool {
	e, known := all.opts.Journal.Entry(q.setting.Target)
	return known && e.ID == q.setting.ID && e.Owner != q.setting.Owner
}

// Original returns the group's value when Berth leaves, in the current period.
func (q *Quota) Original() cgroup.Value { return q.original }

// Stands returns the value last seen or written.
func (q *Quota) Stands() cgroup.Value { return cgroup.Value(q.ours) }

// Rests reports whether the file has the original, as it had when it was last seen. See would then change nothing
// unless the quota was left to another writer. Rests costs less than See, which needs the value as text.
func (q *Quota) Rests(quota, period unit.Micros) bool {
	has, in, err := q.Stands().Pair()
	return err == nil && has == quota && in == period && q.Stands() == q.original && !q.unsettled
}

// IsSettled reports whether the original is on disk: without it nothing may be written.
func (q *Quota) IsSettled() bool { return !q.unsettled }

// Left says why the quota is left to another writer, "" if it is not.
func (q *Quota) Left() string { return q.conflict.Left() }

// Err returns the error of the last write.
func (q *Quota) Err() error { return q.err }

// Problem says in a sentence why the last write was not made, while that lasts.
func (q *Quota) Problem() string { return q.problem }

// Gone reports whether the group did not exist any more at the last write.
func (q *Quota) Gone() bool { return errors.Is(q.err, apply.ErrGone) }

// Writes counts the writes that were made, and the writes that were refused or not effective.
func (q *Quota) Writes() (made, failed uint64) { return q.writes, q.failures }

// Is reports whether an entry of the journal is about q.
func (q *Quota) Is(e journal.Entry) bool {
	return q.setting.Target == e.Target && q.setting.ID == e.ID
}

// Retake forgets that another program wrote here: the owner has changed its request.
func (q *Quota) Retake() { q.conflict.forget() }

// Leave leaves the quota to its other writer.
func (q *Quota) Leave(now time.Duration, have cgroup.Value, reason string) {
	q.conflict.Leave(now, plan.Value(have), reason)
	q.ours = plan.Value(have)
}

// Held reports whether a write of this value must wait after a refused write of its kind.
func (q *Quota) Held(now time.Duration, v cgroup.Value) bool {
	return q.retry(q.lowers(v)).Held(now)
}

func (q *Quota) retry(lowers bool) *Retry {
	if lowers {
		return &q.lowering
	}
	return &q.raising
}

// lowers reports whether a value is less than the current value.
func (q *Quota) lowers(v cgroup.Value) bool {
	to, _, err := v.Pair()
	from, _, ferr := q.Stands().Pair()
	return err == nil && ferr == nil && to >= 0 && (from < 0 || to < from)
}

// See records the current value, and judges another writer's value in this order. The kernel's own doubling of a period
// is no write. A value that the owner's specification names is a resize and becomes the original.
//
// Any other value is overwritten once a minute: a daemon-reload of systemd or a restart of a runtime writes recorded
// values without intention. After that it belongs to its writer (Conflict). With plan.Writers.PutsBack the original
// only delays the next raise for that minute.
func (all *Watch) See(now time.Duration, q *Quota, w plan.Writers, have cgroup.Value) Seen {
	defer q.scale(have)
	q.unsettled, q.conflict.Meant = false, w.Meant
	entry, journaled := all.entry(q)
	if q.conflict.Left() != "" {
		return all.seeLeft(now, q, w, have)
	}
	f := found{at: now, kinds: all.kinds(), target: q.setting.Target, value: plan.Value(have), entry: entry, known: journaled}
	foreign := have
	if q.isKnown(&f, w) {
		foreign = ""
	}
	switch to := resized(w, foreign, cgroup.Value(q.overwritten), entry); {
	case !journaled: // never written: the value is the owner's own
		before := q.Stands()
		if q.original, q.ours = have, plan.Value(have); cgroup.Same(q.knob(), before, have) {
			return SeenExpected
		}
		if !all.IsOthers(q) { // for exclusive CPUs the quota is removed and restored
			all.limitChanged(q, before, have)
		}
		return SeenOriginal
	case to != "":
		return all.rebase(q, to, have)
	case foreign == "":
		q.ours = plan.Value(have)
		return SeenExpected
	case q.keptQuota(have):
		limit, _, _ := q.original.Pair()
		_, period, _ := have.Pair()
		return all.rebase(q, cgroup.MaxValue(limit, period), have)
	case w.PutsBack && f.original():
		q.delayRaise(now)
	case !q.spans(have) || !q.mayOverwrite(&f):
		all.leave(now, q, have)
		return SeenLeft
	}
	all.opts.Log.Info("written by another writer, asserting once more", "workload", q.setting.Workload,
		"group", q.setting.Object, "knob", q.setting.Knob, "was", string(q.ours), "is", string(have))
	q.ours, q.overwritten = plan.Value(have), plan.Value(have)
	return SeenForeign
}

// isKnown reports whether a value is no other program's. Where w says that each write of another program is deliberate,
// a value that the journal has is none either.
func (q *Quota) isKnown(f *found, w plan.Writers) bool {
	return !q.isForeign(f) || (w.Owned || w.Meant) && f.journaled()
}

// seeLeft records the current value of a quota that is left to another writer.
func (all *Watch) seeLeft(now time.Duration, q *Quota, w plan.Writers, have cgroup.Value) Seen {
	entry, journaled := all.entry(q)
	atOriginal := cgroup.Same(q.knob(), have, q.original)
	to := cgroup.Value("")
	if journaled && !atOriginal {
		to = resized(w, have, "", entry)
	}
	q.conflict.See(now, plan.Value(have), atOriginal || to != "")
	switch {
	case to != "":
		if all.rebase(q, to, have) != SeenOriginal {
			return SeenLeft
		}
	case !q.conflict.IsOver(now):
		q.ours = plan.Value(have)
		return SeenLeft
	}
	q.Retake()
	q.ours = plan.Value(have)
	return SeenReturned
}

// delayRaise delays a second raise within a minute: an original that was written back is no conflict, and Berth may
// overwrite it however often it comes.
func (q *Quota) delayRaise(now time.Duration) {
	if !q.conflict.MayAssert(now) {
		q.raising = Retry{at: q.conflict.asserted + assertAgain}
	}
}

// leave gives a quota up to its other writer.
func (all *Watch) leave(now time.Duration, q *Quota, have cgroup.Value) {
	q.Leave(now, have, fmt.Sprintf("%s of %s is %q, Berth had %q: it is left to whoever writes it",
		q.setting.Knob, q.setting.Object, have, q.ours))
	all.opts.Report(Event{Group: q.setting.Object, Workload: q.setting.Workload, Reason: v1alpha1.EventHostDrift, Text: q.Left()})
}

// rebase makes a value the journal's original. Until that is on disk nothing may be written: the journal would restore
// the old original over the new one.
func (all *Watch) rebase(q *Quota, to, have cgroup.Value) Seen {
	if entry, _ := all.entry(q); !cgroup.Same(q.knob(), to, cgroup.Value(entry.Original)) {
		if err := all.opts.Journal.Rebase(q.setting.Target, q.setting.Owner, plan.Value(to)); err != nil {
			q.unsettled = true
			all.opts.Fail("journal", err)
			return SeenExpected
		}
		all.limitChanged(q, cgroup.Value(entry.Original), to)
	}
	q.original, q.ours, q.overwritten = to, plan.Value(have), ""
	return SeenOriginal
}

func (all *Watch) limitChanged(q *Quota, from, to cgroup.Value) {
	all.opts.Log.Info("limit changed", "workload", q.setting.Workload, "target", q.setting.String(), "from", string(from), "to", string(to))
}

// keptQuota reports whether another program changed only the period, under a quota that Berth had written. The limit is
// then its old quota in the new period. Otherwise Berth's own number would become the workload's limit.
func (q *Quota) keptQuota(have cgroup.Value) bool {
	now, _, err := have.Pair()
	ours, _, oerr := q.Stands().Pair()
	limit, _, lerr := q.original.Pair()
	return err == nil && oerr == nil && lerr == nil && ours == now && limit != ours && !q.spans(have)
}

// spans reports whether the original is known at the period of a value. A quota means nothing at another period unless
// the kernel doubled the period.
func (q *Quota) spans(have cgroup.Value) bool {
	_, period, err := have.Pair()
	_, scaled, serr := cgroup.ScaleTo(q.original, period).Pair()
	return q.knob() != cgroup.KnobMax || err == nil && serr == nil && scaled == period
}

// scale adapts the original to the current period: the kernel doubles a period that its timer cannot follow, with quota
// and burst.
func (q *Quota) scale(have cgroup.Value) {
	if have == q.original { // true for each group at rest, every second
		return
	}
	if _, period, err := have.Pair(); err == nil {
		q.original = cgroup.ScaleTo(q.original, period)
	}
}

func (q *Quota) knob() cgroup.Knob { return cgroupfile.Knob(q.setting.Target) }

// Move is a new desired value of a quota.
type Move struct {
	Quota *Quota
	Value cgroup.Value
	// Workload is the beneficiary, by default the quota's own workload. Why is one sentence.
	Workload, Why string
}

// Set writes values at once, in the order of package plan, and records what the kernel made of them. It does not write
// values that are already in place. Of several moves of one quota the last counts.
func (all *Quotas) Set(now time.Duration, moves ...Move) {
	var settings []plan.Setting
	observed := map[plan.Target]plan.Value{}
	quotas := map[plan.Target]*Quota{}
	last := make(map[plan.Target]int, len(moves))
	for i, m := range moves {
		last[m.Quota.setting.Target] = i
	}
	for i, m := range moves {
		if last[m.Quota.setting.Target] != i {
			continue
		}
		m.Quota.err = nil
		if cgroup.Same(m.Quota.knob(), m.Value, m.Quota.Stands()) {
			m.Quota.problem = "" // nothing to write
		}
		s := m.Quota.setting
		s.Value, s.Why = plan.Value(m.Value), m.Why
		if m.Workload != "" {
			s.Workload = m.Workload
		}
		settings, quotas[s.Target] = append(settings, s), m.Quota
		observed[s.Target] = m.Quota.ours
	}
	kinds := all.kinds()
	for _, res := range all.opts.write(plan.Diff(kinds, settings, observed)) {
		all.moved(now, quotas[res.Change.Target], res)
	}
}

// moved processes the result of one change.
func (all *Quotas) moved(now time.Duration, q *Quota, res apply.Result) {
	lowers := q.lowers(cgroup.Value(res.Change.Value))
	hold := q.retry(lowers)
	q.took(res)
	switch q.err = res.Err; {
	case res.Err == nil:
		q.problem, *hold = "", Retry{}
		return
	case errors.Is(res.Err, apply.ErrGone), errors.Is(res.Err, apply.ErrChanged):
		q.failures++ // the next check reads everything
		return
	case lowers:
		hold.Failed(now, LastLowering)
	default:
		hold.Failed(now, LastRetry)
	}
	q.failures++
	q.problem = res.Err.Error()
	all.opts.Fail("write for workload "+res.Change.Workload, res.Err)
	if !lowers || q.knob() != cgroup.KnobMax {
		return
	}
	if lowest, blocker := all.opts.lowest(res.Change); blocker != "" {
		q.problem = because(blocker)
		q.took(lowest)
	}
}

// took records the value after a write.
func (q *Quota) took(res apply.Result) {
	if res.Wrote {
		q.writes++
	}
	if res.Applied() && res.Effective != "" { // the lowest quota may be in place already
		q.ours = res.Effective
		q.scale(q.Stands())
	}
}
