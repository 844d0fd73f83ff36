package v1alpha1

// ResourceSpec is the value of AnnotationResourceSpec. A nil or empty field is unspecified. If both a required and a
// preferred policy are present the required policy takes effect.
type ResourceSpec struct {
	// RequiredCPUBindPolicy is one of CPUBindPolicies; the pod waits for it.
	RequiredCPUBindPolicy *CPUBindPolicy `json:"requiredCPUBindPolicy,omitempty"`
	// PreferredCPUBindPolicy is one of CPUBindPolicies.
	PreferredCPUBindPolicy *CPUBindPolicy `json:"preferredCPUBindPolicy,omitempty"`
	// RequiredCPUExclusivePolicy is one of CPUExclusivePolicies; the pod waits for it.
	RequiredCPUExclusivePolicy *CPUExclusivePolicy `json:"requiredCPUExclusivePolicy,omitempty"`
	// PreferredCPUExclusivePolicy is one of CPUExclusivePolicies.
	PreferredCPUExclusivePolicy *CPUExclusivePolicy `json:"preferredCPUExclusivePolicy,omitempty"`
}

// NUMATopologySpec is the value of AnnotationNUMATopologySpec. A nil or empty field is unspecified.
type NUMATopologySpec struct {
	// NUMATopologyPolicy is one of NUMATopologyPolicies.
	NUMATopologyPolicy *NUMATopologyPolicy `json:"numaTopologyPolicy,omitempty"`
	// SingleNUMANodeExclusive is one of NUMAExclusives.
	SingleNUMANodeExclusive *NUMAExclusive `json:"singleNUMANodeExclusive,omitempty"`
	// NUMAAllocateStrategy is one of NUMAAllocateStrategies.
	NUMAAllocateStrategy *NUMAAllocateStrategy `json:"numaAllocateStrategy,omitempty"`
}

// PlacementVersion is the version of the Placements that this package writes, and the highest that it reads.
const PlacementVersion = 1

// Placement is the value of AnnotationPlacement: which CPUs the containers of a bound pod have.
type Placement struct {
	// V is the version of the form, 1 to PlacementVersion.
	V int `json:"v"`
	// Topology is the hash of the NodeTopology for which the CPUs were chosen.
	Topology string `json:"topology"`
	// Exclusive is the exclusivity that was granted, CPUExclusivePCPULevel or CPUExclusiveNUMANodeLevel; empty if none
	// was granted.
	Exclusive CPUExclusivePolicy `json:"exclusive,omitempty"`
	// NUMAExclusive says that a NUMAExclusive was granted.
	NUMAExclusive bool `json:"numaExclusive,omitempty"`
	// Containers has the pinned containers by name.
	Containers map[string]ContainerPlacement `json:"containers"`
}

// ContainerPlacement is the part of one container.
type ContainerPlacement struct {
	// CPUs is a CPU list, not empty.
	CPUs string `json:"cpus"`
	// Mems are the NUMA nodes that memory may come from, in the same format.
	Mems string `json:"mems"`
	// Policy says whether "cpus" has all CPUs of the container, or the CPUs that are reserved for it.
	Policy PlacementPolicy `json:"policy"`
	// Domain is where a PlacementStaticBurst container borrows, "l3:" or "numa:" and the id; empty for all other
	// containers.
	Domain string `json:"domain,omitempty"`
	// First has the CPUs that the container had before it was resized to more. The container keeps them when it is
	// resized to fewer. It is empty if they are all CPUs of the container.
	First string `json:"first,omitempty"`
}

// MoveVersion is the version of the Moves that this package writes, and the highest that it reads.
const MoveVersion = 1

// Move is the value of AnnotationMove: other CPUs of its node for a pod that runs. It remains until the agent of the
// node removes it because the pod has the CPUs, or records in it why not.
type Move struct {
	// V is the version of the form, 1 to MoveVersion.
	V int `json:"v"`
	// From has the CPUs of all containers of the pod together, as a CPU list.
	From string `json:"from"`
	// To has the same number of new CPUs.
	To string `json:"to"`
	// Withdrawn says that the move must not begin any more.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Refused is why the agent did not begin the move, empty if it was not asked yet.
	Refused string `json:"refused,omitempty"`
}

// PlacementPolicy is the way in which a container has its CPUs.
type PlacementPolicy string

// The placement policies.
const (
	// PlacementExclusive: all CPUs of the container are exclusive.
	PlacementExclusive PlacementPolicy = "exclusive"
	// PlacementStaticBurst: the container also uses CPUs of its domain that are not reserved.
	PlacementStaticBurst PlacementPolicy = "static-burst"
)

// PlacementPolicies returns the policies in the order of messages and documentation.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{PlacementExclusive, PlacementStaticBurst}
}
