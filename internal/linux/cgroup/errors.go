package cgroup

import "errors"

// The classes of errors of this package. The messages that wrap them name the group, the controller, the file and a
// remedy.
var (
	// ErrNoHierarchy means that no mounted hierarchy has the controller.
	ErrNoHierarchy = errors.New("no mounted cgroup hierarchy")
	// ErrNoGroup means that the group does not exist, or that it was removed after it was opened, even if a new group
	// has the same name.
	ErrNoGroup = errors.New("no such cgroup")
	// ErrNoController means that the group exists on cgroup v2, but the controller is not enabled for it.
	ErrNoController = errors.New("controller is not enabled for the cgroup")
	// ErrNoKnob means that the group has the controller but not the file: this kernel lacks the feature, or the group
	// is the root, which has no limits.
	ErrNoKnob = errors.New("kernel has no such cgroup file")
	// ErrMalformed means that a value or a kernel file does not have the documented format.
	ErrMalformed = errors.New("malformed")
	// ErrBadPath means that a group path is not a clean relative path.
	ErrBadPath = errors.New("bad cgroup path")
	// ErrPeriod means that a value is for a period that is not in force, and cannot be scaled to the period in force.
	ErrPeriod = errors.New("made for another period")
	// ErrUnset means that a cpuset of v1 has no CPUs or no memory nodes yet, as right after its creation: no process
	// can be in it.
	ErrUnset = errors.New("cpuset is not set up yet")
	// ErrClaimed means that another handle has claimed the group.
	ErrClaimed = errors.New("another Berth agent holds this group")
	// ErrNoProcess means that no process has that id.
	ErrNoProcess = errors.New("no such process")
	// ErrNotSole means that processes do not have one group to themselves.
	ErrNotSole = errors.New("not in one cgroup of their own")
	// ErrAmbiguous means that several groups match a unit's name.
	ErrAmbiguous = errors.New("more than one cgroup of that name")
)
