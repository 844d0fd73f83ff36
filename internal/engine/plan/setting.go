package plan

import "fmt"

// Owner names the capability that desires a setting. It is the argument of "berth rollback --owner".
type Owner string

const (
	// OwnerBurst changes quotas and the kernel's own burst.
	OwnerBurst Owner = "burst"
	// OwnerPlace gives pinned groups their CPUs and memory nodes. It lifts the quota of pinned groups that have their
	// CPUs to themselves, and of their pods. No group of another path ever shares a CPU with a pinned group, except a
	// CPU that the pinned group borrows (static-burst): the promise is about the reserved part.
	OwnerPlace Owner = "place"
	// OwnerPool keeps all other groups off the CPUs of pinned groups.
	OwnerPool Owner = "pool"
	// OwnerIsolate gives offline groups their cores, and decides which group has precedence on a CPU.
	OwnerIsolate Owner = "isolate"
)

// Apart reports whether groups of these two owners never share a CPU, not even between two writes. That is true for
// pinned groups and all other groups, and for offline groups and online groups. Offline work without cores of its own
// shares CPUs with other groups; later writes then wait only for CPUs that it gives up for a reserve.
func (o Owner) Apart(other Owner) bool {
	return o == OwnerPlace || other == OwnerPlace || (o == OwnerIsolate) != (other == OwnerIsolate)
}

// Driver names a kind of target, and with it the code that reads and writes it.
type Driver string

// Value is the value of a target, in the canonical form of its driver.
type Value string

// Identity distinguishes the object of a target from another object that had the same name before or has it later. Only
// the driver knows its format. The empty Identity identifies no object.
type Identity string

// Target is one place on the host that has a value: Object and Knob name the place, and Driver is the way to reach it.
// It is comparable and serves as a map key.
type Target struct {
	// Driver is the kind of target.
	Driver Driver
	// Object is the thing that has the knob: a control group, or a directory of kernel settings.
	Object string
	// Knob is the setting of the object.
	Knob string
}

// Place is a target without its driver: two targets with the same object and knob are the same value on the host.
type Place struct{ Object, Knob string }

// Place returns the place of the target on the host.
func (t Target) Place() Place { return Place{Object: t.Object, Knob: t.Knob} }

// String returns "OBJECT KNOB", for messages.
func (t Target) String() string { return t.Object + " " + t.Knob }

// Setting is a desired value of a target.
type Setting struct {
	Target
	// ID is the identity of the object, as the driver reports it. It is required: a group that was deleted and created
	// again has the old name and another identity. Apply returns ErrGone for another identity, and for the empty
	// identity.
	ID Identity
	// Value is the desired value.
	Value Value
	// Owner is the capability that desires the value.
	Owner Owner
	// Workload is the name of the workload that the value is for.
	Workload string
	// Why is one sentence for "berth explain".
	Why string
}

// Change is a setting whose target has another value now.
type Change struct {
	Setting
	// From is the value that was observed when the change was planned. Apply refuses the change when the host no longer
	// has this value.
	From Value
}

// String returns "OBJECT KNOB: FROM -> VALUE", for messages.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Target, c.From, c.Value)
}
