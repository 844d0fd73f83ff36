package cgroup

import "errors"

// The classes of errors of this package. The messages that wrap them name the
// group, the controller, the file and what would help.
var (
	// ErrNoHierarchy says that no mounted hierarchy has the controller.
	ErrNoHierarchy = errors.New("no mounted cgroup hierarchy")
	// ErrNoGroup says that the group is not there, or not any more: it never
	// was, it was removed, or it was removed and made again since it was
	// opened.
	ErrNoGroup = errors.New("no such cgroup")
	// ErrNoController says that the group exists on cgroup v2 without the
	// controller enabled for it.
	ErrNoController = errors.New("controller is not enabled for the cgroup")
	// ErrNoKnob says that the group has the controller but not the file: this
	// kernel lacks the feature, or the group is the root, which has no limits.
	ErrNoKnob = errors.New("kernel has no such cgroup file")
	// ErrMalformed says that a value or a kernel file does not look as
	// documented.
	ErrMalformed = errors.New("malformed")
	// ErrBadPath says that a group path is not a clean relative one.
	ErrBadPath = errors.New("bad cgroup path")
	// ErrPeriod says that a value is made for a period that is not in force
	// and cannot be scaled to the one that is.
	ErrPeriod = errors.New("made for another period")
	// ErrUnset says that a cpuset of v1 has no CPUs or no memory nodes yet, as
	// when it was just made: no process can be in it.
	ErrUnset = errors.New("cpuset is not set up yet")
	// ErrClaimed says that another handle has claimed the group.
	ErrClaimed = errors.New("another Berth agent holds this group")
	// ErrNoProcess says that there is no process with that id.
	ErrNoProcess = errors.New("no such process")
	// ErrNotSole says that processes do not have one group to themselves.
	ErrNotSole = errors.New("not in one cgroup of their own")
	// ErrAmbiguous says that a unit's name stands for several groups.
	ErrAmbiguous = errors.New("more than one cgroup of that name")
)
