package place

import (
	"maps"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Facts are the properties of the node as a whole.
type Facts struct {
	// Machine is the present state of the node: CPUs that are online, reserved, isolated. It is nil if unknown; then
	// nothing is pinned.
	Machine *alloc.Machine
	// Hash identifies the machine in placements.
	Hash   string
	Policy placement.NodePolicy
	// AllocatableMilli is the node's allocatable CPU in thousandths.
	AllocatableMilli int64
	// Pinnable says whether Berth may set CPU sets here. If not, the Node desires nothing, and Berth must neither write
	// nor restore CPU sets: they have another owner, or the CPUs are unknown.
	Pinnable bool
	// Reason is why Pinnable is false, for the events of pods.
	Reason string
	// MemsOwner is a sentence that names another program that sets memory nodes here, or "". If there is one, no
	// Desired has memory nodes.
	MemsOwner string
	// Given is the memory that the kubelet gave to pods, by "namespace/name". It counts for pods without a placement.
	Given map[string]placement.Given
}

// equal reports whether both are the same facts.
func (f *Facts) equal(o *Facts) bool {
	same := f.Machine == o.Machine && f.Hash == o.Hash && f.Policy == o.Policy && f.AllocatableMilli == o.AllocatableMilli
	return same && f.Pinnable == o.Pinnable && f.Reason == o.Reason && f.MemsOwner == o.MemsOwner && maps.EqualFunc(f.Given, o.Given, placement.Given.Equal)
}

// memsOf returns the desired NUMA nodes of a container with this part, or none where another program sets them.
func (f *Facts) memsOf(one grant.Part) cpuset.Set {
	if f.MemsOwner != "" {
		return cpuset.Set{}
	}
	return one.Mems
}
