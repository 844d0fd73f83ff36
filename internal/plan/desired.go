package plan

import "github.com/berth-project/berth/internal/unit"

// Desired is a setting that shall stand for as long as it is desired. Decisions are made of
// these, and package reconcile brings them about. It is comparable.
type Desired struct {
	// Setting is the value. The identity is that of the object that has the name when it is
	// looked at, and is left empty here.
	Setting
	// Below says that all objects below get the same where the host does not hand it down.
	Below bool
	// Writers says what another program's value means.
	Writers Writers
}

// Writers says what a value means that another program wrote at a target. Of the zero
// value it means that the other program does not know of Berth: its value is written over
// once a minute, and left where it comes back sooner.
type Writers struct {
	// Limits are what the owner's specification grants, in CPUs, 0 for nothing: a quota
	// that grants one of them is a resize, and the new original.
	Limits [2]unit.CPUs
	// InForce says that the program which carries the specification out reports the first of
	// Limits as done: a quota of Berth's that is the same number hides its write, and the
	// limit is the new original.
	InForce bool
	// Made says that a container runtime makes the object as Berth answered, also at a
	// resize: the first limit is the original although nothing on the host shows it.
	Made bool
	// Owned says that the target belongs to a program that knows what it ought to be, as
	// the kubelet does of a pod's group: all that it writes is the new original. Of a
	// precedence these are weights: whoever writes one ended what was idle.
	Owned bool
	// Lifted says that a quota which another writer took away is the new original: Berth
	// puts no limit where there is none.
	Lifted bool
	// PutsBack says that the original is no sign of a conflict, however often it comes:
	// systemd writes what it knows at every daemon-reload.
	PutsBack bool
	// Moves says that the desired value follows the load: another one is no new request, and
	// ends no conflict. A quota never comes above the original, and a lower one of another
	// program is the new original.
	Moves bool
	// Meant says that no program writes here without meaning it, as the kernel's own burst
	// of a pod's group is written by neither the kubelet nor systemd: the value is left to
	// its writer at once.
	Meant bool
	// Chosen says that an owner may have chosen the other value: a conflict then ends when
	// the original stood for five minutes, and else when the other value stood unchanged.
	Chosen bool
}
