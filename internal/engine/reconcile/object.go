package reconcile

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// object is one group with desired settings.
type object struct {
	path    string
	desired wanted
	group   *cgroup.Group // nil while it is closed
	knobs   map[cgroup.Knob]*knob
	progress
	// dirty asks for a full check at the next pass.
	dirty bool
	// deferred is true if something was left to systemd since the last check: the next pass checks.
	deferred bool
	// watched is until when the Reconciler checks the group every second.
	watched time.Duration
	// failed is the knob that state and reason are about after a failure.
	failed cgroup.Knob
}

// isWatched reports whether the Reconciler checks the group every second: another program is about to write to it, or a
// desired value follows the load, and a value that systemd writes back does not.
func (o *object) isWatched(now time.Duration) bool {
	if now < o.watched {
		return true
	}
	for _, d := range o.desired {
		if d.Writers.Moves {
			return true
		}
	}
	return false
}

// knob is one setting of a group.
type knob struct {
	kept
	// deferred is the value left to systemd since the last check, "" for none.
	deferred cgroup.Value
	// effective is the list in effect. settled means that it follows from the value in the file. lacking means that the
	// desired value names more, which is offline.
	effective        cpuset.Set
	settled, lacking bool
	// refused is true if the last write failed.
	refused bool
	// overtaken is true if another program wrote between the last check and its write.
	overtaken bool
	problem   error
	fight     fight
}

func newObject(path string, w wanted) *object {
	return &object{path: path, desired: w, knobs: map[cgroup.Knob]*knob{}, progress: progress{state: StatePending}, dirty: true}
}

// take stores the desired settings, which may have changed.
func (o *object) take(d wanted) {
	before := o.desired
	o.desired = d
	if !d.differs(before) {
		return
	}
	o.dirty, o.retry = true, Retry{}
	for k, kn := range o.knobs {
		if before.value(k, 1) != d.value(k, 1) {
			if w := d[k].Writers; !w.Moves || w != before[k].Writers {
				kn.conflict = conflictOf(w)
			}
			kn.settled, kn.refused, kn.overtaken = false, false, false
		}
		if !d.sets(k) {
			delete(o.knobs, k)
		}
	}
}

func (o *object) knob(k cgroup.Knob) *knob {
	kn := o.knobs[k]
	if kn == nil {
		kn = &knob{kept: kept{conflict: conflictOf(o.desired[k].Writers)}}
		o.knobs[k] = kn
	}
	return kn
}

// open opens the group, unless it is open already.
func (o *object) open(host *cgroup.Host) error {
	if o.group != nil {
		return nil
	}
	g, err := host.Group(o.path)
	if err != nil {
		return err
	}
	o.group = g
	return nil
}

// drop closes a group that is gone. A group that comes back under its name is another group, of which nothing is known.
func (o *object) drop() {
	_ = o.close() // only used to read
	clear(o.knobs)
}

func (o *object) close() error {
	if o.group == nil {
		return nil
	}
	err := o.group.Close()
	o.group = nil
	return err
}

// undisturbed reports whether everything is in effect as Berth left it, by one read for each knob.
func (o *object) undisturbed() bool {
	if o.dirty || o.group == nil || o.state != StateApplied {
		return false
	}
	for _, k := range o.desired.knobs() {
		kn := o.knobs[k]
		if kn == nil || !kn.settled || kn.lacking || !o.stands(k, kn) {
			return false
		}
	}
	return true
}

func (o *object) stands(k cgroup.Knob, kn *knob) bool {
	if k == cgroup.KnobMax {
		quota, period, err := cgroup.Value(kn.ours).Pair()
		if err != nil {
			return false
		}
		stands, err := o.group.Stands(quota, period)
		return err == nil && stands
	}
	if k.Controller() != cgroup.CPUSet {
		v, err := o.group.Read(k)
		return err == nil && cgroup.Same(k, v, cgroup.Value(kn.ours))
	}
	set, err := o.group.Effective(k)
	return err == nil && set == kn.effective
}

// read returns the current value of the knob, and the value that the desired setting amounts to now. The group of a
// unit may lack the controller until systemd is asked.
func (o *object) read(k cgroup.Knob, unitName string) (stands, want cgroup.Value, err error) {
	stands, err = o.group.Read(k)
	if unitName != "" && errors.Is(err, cgroup.ErrNoController) {
		stands, err = k.WithoutController(), nil
	}
	if err != nil {
		return "", "", err
	}
	period := unit.Micros(1)
	if k == cgroup.KnobMax {
		if _, period, err = stands.Pair(); err != nil {
			return "", "", fmt.Errorf("group %q: %w", o.path, err)
		}
	}
	return stands, o.group.Attainable(k, o.desired.value(k, period)), nil
}

// identity returns the identity of the group for a knob.
func (o *object) identity(k cgroup.Knob) (plan.Identity, error) {
	id, err := o.group.ID(k.Controller())
	return cgroupfile.Identity(id), err
}

// verify compares what the kernel uses with the value in the file.
func (o *object) verify(k cgroup.Knob, stands cgroup.Value) error {
	kn := o.knob(k)
	kn.ours, kn.before, kn.settled, kn.refused = plan.Value(stands), "", true, false
	if k.Controller() != cgroup.CPUSet {
		return nil
	}
	effective, ok, err := o.group.InEffect(k, stands)
	kn.effective, kn.settled = effective, err == nil && ok
	kn.lacking = cgroup.ListValue(effective) != o.desired.value(k, 1)
	switch {
	case err != nil:
		return err
	case !ok:
		return fmt.Errorf("%w: %s of %s is %s, the kernel uses %s %v",
			errNotInEffect, k, o.path, stands, effective, o.group.Obstacles(k, stands))
	}
	return nil
}

// observe records the list in effect while the file does not have the desired list. The group uses it until Berth
// writes the desired list, or permanently if Berth may not write.
func (o *object) observe(k cgroup.Knob) {
	kn := o.knob(k)
	kn.settled = false
	if k.Controller() != cgroup.CPUSet {
		return
	}
	if effective, err := o.group.Effective(k); err == nil {
		kn.effective = effective
	}
}

// errNotInEffect means that the file has the desired value, but the kernel uses another one.
var errNotInEffect = errors.New("not in effect")

func (o *object) status() Status {
	s := Status{Group: o.path, Owner: o.desired.first().Owner, State: o.state, Reason: o.reason}
	if kn := o.knobs[cgroup.KnobCPUs]; kn != nil {
		s.CPUs = kn.effective
	}
	if kn := o.knobs[cgroup.KnobMems]; kn != nil {
		s.Mems = kn.effective
	}
	return s
}
