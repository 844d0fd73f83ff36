package pinning

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

const (
	// assertAgain is how long a value must have stood until writing it over once
	// more is no duel.
	assertAgain = time.Minute
	// resumeAfter is how long somebody else's value must have stood unchanged, or
	// the wished one again, until the knob is taken up again.
	resumeAfter = 5 * time.Minute
)

// duel is what is known of somebody else who writes a knob.
type duel struct {
	asserted  time.Duration // when his value was written over last
	hasFought bool
	left      string // why the knob is left to him, "" when it is not
	last      cgroup.Value
	since     time.Duration // since when last stands
}

// isForeign says that somebody else wrote what stands. journaled says that the
// journal knows it as original or as Berth's own, and known that it knows the group.
func (kn *knob) isForeign(k cgroup.Knob, stands cgroup.Value, m *member, journaled, known bool) bool {
	if kn.left != "" {
		return true
	}
	if kn.ours == "" { // a new agent knows no more than the journal
		return known && !journaled
	}
	return !cgroup.Same(k, stands, kn.ours) && !cgroup.Same(k, stands, m.group.Attainable(k, kn.ours)) &&
		!cgroup.Same(k, stands, kn.before)
}

// mayWrite says whether what stands may be written over.
func (k *Keeper) mayWrite(m *member, name cgroup.Knob, stands cgroup.Value, entry journal.Entry, known bool) bool {
	kn := m.knob(name)
	original := known && entry.IsOriginal(k.kinds(), plan.Value(stands))
	if m.nobodyMeans(name, stands, original) {
		kn.duel = duel{}
		return true
	}
	if !kn.isForeign(name, stands, m, original || known && entry.IsOurs(k.kinds(), plan.Value(stands)), known) {
		return true
	}
	if !kn.mayAssert(k.now, stands) {
		return false
	}
	kn.overwritten = stands
	return true
}

// mayAssert allows one write over a foreign value a minute, and another try at a knob
// that was left once its value has stood for long.
func (d *duel) mayAssert(now time.Duration, stands cgroup.Value) bool {
	if stands != d.last {
		d.last, d.since = stands, now
	}
	if d.left != "" {
		if now-d.since < resumeAfter {
			return false
		}
		*d = duel{}
	}
	if d.hasFought && now-d.asserted < assertAgain {
		return false
	}
	d.asserted, d.hasFought = now, true
	return true
}

// returned says that what is wished stands.
func (d *duel) returned(time.Duration) { d.left = "" }

// leave gives a knob up to whoever writes it.
func (k *Keeper) leave(m *member, name cgroup.Knob, stands, want cgroup.Value) error {
	kn := m.knob(name)
	kn.settled = false
	if name != cgroup.KnobMax {
		if effective, err := m.group.Effective(name); err == nil {
			kn.effective = effective
		}
	}
	if kn.left == "" {
		kn.left = fmt.Sprintf("%s of %s is %q again, not %q: it is left to whoever writes it", name, m.wish.Group, stands, want)
		k.tell(m, v1alpha1.EventHostDrift, kn.left)
	}
	return nil
}
