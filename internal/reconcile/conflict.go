package reconcile

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
	// more is no conflict.
	assertAgain = time.Minute
	// resumeAfter is how long another writer's value must have stood unchanged until
	// the reconciler takes the knob up again.
	resumeAfter = 5 * time.Minute
)

// conflict is what the reconciler knows of another writer of a knob.
type conflict struct {
	asserted  time.Duration // when the other value was written over last
	hasFought bool
	left      string // why the knob is left to the other writer, "" when it is not
	last      cgroup.Value
	since     time.Duration // since when last stands
}

// isForeign says that another writer wrote what stands. journaled says that the
// journal knows it as original or as Berth's own, and known that it knows the group.
func (kn *knob) isForeign(k cgroup.Knob, stands cgroup.Value, o *object, journaled, known bool) bool {
	if kn.left != "" {
		return true
	}
	if kn.ours == "" { // a new agent knows no more than the journal
		return known && !journaled
	}
	return !cgroup.Same(k, stands, kn.ours) && !cgroup.Same(k, stands, o.group.Attainable(k, kn.ours)) &&
		!cgroup.Same(k, stands, kn.before)
}

// mayWrite says whether what stands may be written over.
func (r *Reconciler) mayWrite(o *object, name cgroup.Knob, stands cgroup.Value, entry journal.Entry, known bool) bool {
	kn := o.knob(name)
	original := known && entry.IsOriginal(r.kinds(), plan.Value(stands))
	if o.isExpected(name, stands, original) {
		kn.conflict = conflict{}
		return true
	}
	if !kn.isForeign(name, stands, o, original || known && entry.IsOurs(r.kinds(), plan.Value(stands)), known) {
		return true
	}
	if !kn.mayAssert(r.now, stands) {
		return false
	}
	kn.overwritten = stands
	return true
}

// mayAssert allows one write over a foreign value a minute, and another try at a knob
// that was left once its value has stood for long.
func (d *conflict) mayAssert(now time.Duration, stands cgroup.Value) bool {
	if stands != d.last {
		d.last, d.since = stands, now
	}
	if d.left != "" {
		if now-d.since < resumeAfter {
			return false
		}
		*d = conflict{}
	}
	if d.hasFought && now-d.asserted < assertAgain {
		return false
	}
	d.asserted, d.hasFought = now, true
	return true
}

// returned says that the desired value stands.
func (d *conflict) returned(time.Duration) { d.left = "" }

// leave leaves a knob to its other writer.
func (r *Reconciler) leave(o *object, name cgroup.Knob, stands, want cgroup.Value) error {
	kn := o.knob(name)
	kn.settled = false
	if name != cgroup.KnobMax {
		if effective, err := o.group.Effective(name); err == nil {
			kn.effective = effective
		}
	}
	if kn.left == "" {
		kn.left = fmt.Sprintf("%s of %s is %q again, not %q: it is left to whoever writes it", name, o.desired.Group, stands, want)
		r.event(o, v1alpha1.EventHostDrift, kn.left)
	}
	return nil
}
