package plan

import "github.com/berth-project/berth/internal/value/unit"

// Desired is a setting that is to be in effect for as long as it is desired. Decisions consist of these settings, and
// package reconcile applies them. It is comparable.
type Desired struct {
	// Setting is the desired value. Its identity is empty here: it is that of the object that has the name when the
	// reconciler reads it.
	Setting
	// Below means that all objects below get the same value, where the host does not pass it down itself.
	Below bool
	// Writers defines what another program's value means.
	Writers Writers
}

// Writers defines what a value means that another program wrote at a target. The zero value means that the other
// program does not know of Berth. Berth writes over that program's value once a minute, and leaves it where it comes
// back sooner.
type Writers struct {
	// Limits are the limits that the owner's specification grants, in CPUs, 0 for none: a quota that grants one of them
	// is a resize, and the new original.
	Limits [2]unit.CPUs
	// InForce means that the program that applies the specification reports Limits[0] as applied. If a quota of Berth's
	// has the same number, it hides that program's write, and the limit is the new original.
	InForce bool
	// Made means that a container runtime creates the object as Berth answered, also at a resize: Limits[0] is the
	// original although nothing on the host shows it.
	Made bool
	// Owned means that the target belongs to a program that knows its correct value, as the kubelet does for a pod's
	// group. Every value that this program writes is the new original. For a precedence these values are weights: a
	// program that writes a weight ends the idle state of the group.
	Owned bool
	// Lifted means that unlimited is the new original once another writer removed the quota: Berth sets no limit where
	// there is none.
	Lifted bool
	// PutsBack means that the original is no sign of a conflict, however often it returns: systemd writes the values
	// that it knows at every daemon-reload.
	PutsBack bool
	// Moves means that the desired value follows the load: a different desired value is no new request, and ends no
	// conflict. A quota never rises above the original, and a lower quota of another program is the new original.
	Moves bool
	// Meant means that every write of another program here is deliberate: Berth leaves the value to its writer at once.
	// An example is the kernel's own burst of a pod's group, which neither the kubelet nor systemd writes.
	Meant bool
	// Chosen means that an owner may have chosen the other value: a conflict then ends when the original was in effect
	// for five minutes. Without Chosen it ends when the other value was unchanged for five minutes.
	Chosen bool
}
