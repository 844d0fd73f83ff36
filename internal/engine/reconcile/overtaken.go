package reconcile

import (
	"errors"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// overtaken processes a change that was not made because another program wrote the value, or that of a change which
// this one needs, after the check. Nothing is wrong if the group has the desired value then. The next check looks at
// everything again in any case: the journal may have to change, too.
func (o *object) overtaken(res apply.Result) {
	name := cgroupfile.Knob(res.Change.Target)
	kn := o.knob(name)
	kn.problem, o.dirty = res.Err, true
	if o.group == nil {
		return
	}
	if stands, err := o.group.Read(name); err == nil && cgroup.Same(name, stands, cgroup.Value(res.Change.Value)) {
		kn.problem = o.verify(name, stands)
	}
}

// awaitsCheck reports whether another program overtook the last write and not the one before: the next check plans again
// from what it sees. A program that does so at each check makes a failure.
func (kn *knob) awaitsCheck() bool {
	again := kn.overtaken
	kn.overtaken = errors.Is(kn.problem, apply.ErrChanged)
	return kn.overtaken && !again
}

// cause identifies a failure, which is reported once. Another program may write another value each time.
func (o *object) cause() string {
	if kn := o.knobs[o.failed]; kn != nil && errors.Is(kn.problem, apply.ErrChanged) {
		return string(o.failed) + ": " + apply.ErrChanged.Error()
	}
	return o.reason
}
