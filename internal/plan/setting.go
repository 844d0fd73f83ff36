package plan

import (
	"fmt"

	"github.com/berth-project/berth/internal/cgroup"
)

// Owner names the capability that wants a setting. It is what
// "berth rollback --owner" takes.
type Owner string

const (
	// OwnerBurst moves quotas and the kernel's own burst.
	OwnerBurst Owner = "burst"
	// OwnerPlace gives pinned groups their CPUs and memory nodes, and lifts the
	// quota of those, and of their pods, that have their CPUs to themselves. No
	// group of another path ever has a CPU together with one of these.
	OwnerPlace Owner = "place"
	// OwnerPool keeps all other groups off the CPUs of pinned ones.
	OwnerPool Owner = "pool"
)

// Owners returns every owner that Berth knows.
func Owners() []Owner { return []Owner{OwnerBurst, OwnerPlace, OwnerPool} }

// Target is one knob of one group. It is comparable and serves as a map key.
type Target struct {
	// Group is the path relative to the root of each hierarchy, as
	// cgroup.Group.Path returns it.
	Group string
	// Knob is the setting within the group, the same name on cgroup v1 and v2.
	Knob cgroup.Knob
}

// String returns "GROUP KNOB", for messages.
func (t Target) String() string { return t.Group + " " + string(t.Knob) }

// Setting is a wish: this target shall have this value.
type Setting struct {
	Target
	// ID is the identity of the group that is meant, as cgroup.Group.ID returns
	// it for the controller of the knob. It is required: a group that was
	// deleted and made again has the old path and another identity, and the zero
	// ID is no group's. Apply answers ErrGone for both.
	ID cgroup.ID
	// Unit is the systemd unit that the group belongs to, where systemd has to
	// write the value: it would undo what is written behind its back at the next
	// daemon-reload. It is empty where the file is written. Only
	// cgroup.KnobCPUs and cgroup.KnobMems may have one.
	Unit string
	// Value is in the canonical form of package cgroup, the same for every
	// version of cgroups.
	Value cgroup.Value
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
	From cgroup.Value
}

// String returns "GROUP KNOB: FROM -> VALUE", for messages.
func (c Change) String() string {
	return fmt.Sprintf("%s: %s -> %s", c.Target, c.From, c.Value)
}
