package plan

import "fmt"

// Owner names the capability that wants a setting. It is what
// "berth rollback --owner" takes.
type Owner string

const (
	// OwnerBurst moves quotas and the kernel's own burst.
	OwnerBurst Owner = "burst"
	// OwnerPlace gives pinned groups their CPUs and memory nodes, and lifts the
	// quota of those, and of their pods, that have their CPUs to themselves. No
	// group of another path ever has a CPU together with one of these, but for
	// what it borrows (static-burst): the promise is about the reserved part.
	OwnerPlace Owner = "place"
	// OwnerPool keeps all other groups off the CPUs of pinned ones.
	OwnerPool Owner = "pool"
	// OwnerIsolate gives offline groups their cores, and says who goes first on a CPU.
	OwnerIsolate Owner = "isolate"
)

// Apart says whether groups of these two owners never have a CPU together, not even between
// two writes: pinned groups and all others, and offline groups and online ones.
// Offline work without cores of its own shares CPUs with the others; only what it gives up for a reserve
// is then waited for.
func (o Owner) Apart(other Owner) bool {
	return o == OwnerPlace || other == OwnerPlace || (o == OwnerIsolate) != (other == OwnerIsolate)
}

// Driver names a kind of target, and with it the code that reads and writes it.
type Driver string

// Value is the value of a target, in the canonical form of its driver.
type Value string

// Identity distinguishes the thing that a target means from another one that had the same
// name before or has it later. Only the driver knows what it says; it is no
// thing's when it is empty.
type Identity string

// Target is one place on the host that has a value: Object and Knob name the place,
// Driver the way to it. It is comparable and serves as a map key.
type Target struct {
	// Driver is the kind of target.
	Driver Driver
	// Object is what has the knob: a control group, a directory of kernel settings.
	Object string
	// Knob is the setting of the object.
	Knob string
}

// Place is a target whichever way leads to it: two targets with the same object and
// knob are the same value on the host.
type Place struct{ Object, Knob string }

// Place returns what the target means on the host.
func (t Target) Place() Place { return Place{Object: t.Object, Knob: t.Knob} }

// String returns "OBJECT KNOB", for messages.
func (t Target) String() string { return t.Object + " " + t.Knob }

// Setting is a desired value: this target shall have it.
type Setting struct {
	Target
	// ID is the identity of what is meant, as the driver gives it. It is required:
	// a group that was deleted and made again has the old name and another identity.
	// Apply answers ErrGone for that, and for the empty one.
	ID Identity
	// Value is the desired value.
	Value Value
	// Owner is the capability that wants it.
	Owner Owner
	// Workload is the name of the workload it is for.
	Workload string
	// Why is one sentence for "berth explain".
	Why string
}

// Change is a setting whose target stands at another value.
type Change struct {
	Setting
	// From is the value that was observed when the change was planned. Apply
	// refuses the change when the host no longer has it.
	From Value
}

// String returns "OBJECT KNOB: FROM -> VALUE", for messages.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Target, c.From, c.Value)
}
