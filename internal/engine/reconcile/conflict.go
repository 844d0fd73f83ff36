package reconcile

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	// assertAgain is how long after an overwrite of another writer's value the next overwrite is no conflict.
	assertAgain = time.Minute
	// resumeAfter is how long a target stays left to its other writer.
	resumeAfter = 5 * time.Minute
)

// Conflict is what is known of another writer of one target. Berth overwrites its value once a minute, because
// daemon-reloads of systemd and restarts of runtimes write recorded values without regard to Berth. A value that comes
// back sooner is left for five minutes. The zero value is a target without another writer.
type Conflict struct {
	// Chosen is plan.Writers.Chosen: it says how the conflict ends. Meant is plan.Writers.Meant: the other value is
	// left at once.
	Chosen, Meant bool

	asserted    time.Duration // when the other value was last overwritten
	hasAsserted bool
	reason      string // why the target is left, "" if it is not
	last        plan.Value
	since       time.Duration // since when the value that ends the conflict is in place
}

// conflictOf returns the conflict of a target without another writer.
func conflictOf(w plan.Writers) Conflict { return Conflict{Chosen: w.Chosen, Meant: w.Meant} }

// forget forgets the other writer.
func (c *Conflict) forget() { *c = Conflict{Chosen: c.Chosen, Meant: c.Meant} }

// Left says why the target is left to its other writer, "" if it is not.
func (c Conflict) Left() string { return c.reason }

// Leave leaves the target to its other writer.
func (c *Conflict) Leave(now time.Duration, stands plan.Value, reason string) {
	c.reason, c.last, c.since = reason, stands, now
}

// See records the current value of a target that is left. isOriginal says that the value is the original.
func (c *Conflict) See(now time.Duration, stands plan.Value, isOriginal bool) {
	disturbed := stands != c.last
	if c.Chosen {
		disturbed = !isOriginal
	}
	if disturbed {
		c.since = now
	}
	c.last = stands
}

// IsOver reports whether the value last seen has been in place for long enough.
func (c Conflict) IsOver(now time.Duration) bool { return now-c.since >= resumeAfter }

// Returned records that the desired value is back. The time of the last overwrite remains valid.
func (c *Conflict) Returned() { c.reason = "" }

// MayAssert allows one overwrite of another writer's value per minute.
func (c *Conflict) MayAssert(now time.Duration) bool {
	if c.Meant || c.hasAsserted && now-c.asserted < assertAgain {
		return false
	}
	c.asserted, c.hasAsserted = now, true
	return true
}

// MayWrite reports whether Berth may overwrite the current value, also at a target that is left.
func (c *Conflict) MayWrite(now time.Duration, stands plan.Value, isOriginal bool) bool {
	if c.reason != "" {
		c.See(now, stands, isOriginal)
		if !c.IsOver(now) {
			return false
		}
		c.forget()
	}
	return c.MayAssert(now)
}

// mayReplace reports whether Berth may overwrite the current value. foreign means that another program wrote the value,
// expected that it is no conflict however often it comes.
func (c *Conflict) mayReplace(now time.Duration, stands plan.Value, foreign, expected, original bool) bool {
	if expected {
		c.forget()
		return true
	}
	return !foreign && c.reason == "" || c.MayWrite(now, stands, original)
}

// leaveTo leaves a target to its other writer. It returns the reason, and whether the reason is new.
func (c *Conflict) leaveTo(now time.Duration, at string, stands, want plan.Value) (reason string, isNew bool) {
	if c.reason != "" {
		return c.reason, false
	}
	c.Leave(now, stands, fmt.Sprintf("%s is %q again, not %q: it is left to whoever writes it", at, stands, want))
	return c.reason, true
}

// mayWrite reports whether Berth may overwrite the current value.
func (r *Reconciler) mayWrite(o *object, name cgroup.Knob, stands cgroup.Value, entry journal.Entry, known bool) bool {
	kn, f := o.knob(name), o.found(r.kinds(), name, stands, entry, known)
	f.at = r.now
	f.expected = o.isExpected(name, stands, f.original()) || r.opts.isAnswer(o.path, name, stands)
	may, foreign := kn.mayWrite(&f)
	// A value that is still there because Berth cannot write (refused) was not written again.
	if may && foreign && f.expected && !kn.refused && kn.fight.again(r.now) {
		r.opts.Log.Warn("another program writes it again and again", "target", fmt.Sprintf("%s of %s", name, o.path),
			"writes", string(stands), "times", kn.fight.times)
	}
	return may
}

// found compares the current value of a knob with the journal's entry, and with values of Berth's.
func (o *object) found(kinds plan.Kinds, k cgroup.Knob, stands cgroup.Value, entry journal.Entry, known bool) found {
	f := found{kinds: kinds, target: cgroupfile.Target(o.path, k), value: plan.Value(stands), entry: entry, known: known}
	f.isLike = func(ours plan.Value) bool {
		return cgroup.Same(k, stands, o.group.Attainable(k, cgroup.Value(ours)))
	}
	return f
}

// isAnswer reports whether a list is an earlier answer of Berth's to the container runtime. systemd has it on record
// for the group and writes it again at every daemon-reload, also several times in a minute: that is no conflict.
func (o *Options) isAnswer(group string, name cgroup.Knob, stands cgroup.Value) bool {
	if o.Answered == nil || name.Controller() != cgroup.CPUSet {
		return false
	}
	list, err := cpuset.Parse(string(stands))
	return err == nil && !list.IsEmpty() && o.Answered(group, name == cgroup.KnobMems, list)
}

// leave leaves a knob to its other writer.
func (r *Reconciler) leave(o *object, name cgroup.Knob, stands, want cgroup.Value) error {
	at := fmt.Sprintf("%s of %s", name, o.path)
	if reason, isNew := o.knob(name).conflict.leaveTo(r.now, at, plan.Value(stands), plan.Value(want)); isNew {
		r.event(o, v1alpha1.EventHostDrift, reason)
	}
	return nil
}
