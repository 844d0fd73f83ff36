package v1alpha1

// ResourceSpec is the value of AnnotationResourceSpec. What is nil or empty was
// not said. Where a required and a preferred policy are both there the required
// one counts.
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

// NUMATopologySpec is the value of AnnotationNUMATopologySpec. What is nil or
// empty was not said.
type NUMATopologySpec struct {
	// NUMATopologyPolicy is one of NUMATopologyPolicies.
	NUMATopologyPolicy *NUMATopologyPolicy `json:"numaTopologyPolicy,omitempty"`
	// SingleNUMANodeExclusive is one of NUMAExclusives.
	SingleNUMANodeExclusive *NUMAExclusive `json:"singleNUMANodeExclusive,omitempty"`
	// NUMAAllocateStrategy is one of NUMAAllocateStrategies.
	NUMAAllocateStrategy *NUMAAllocateStrategy `json:"numaAllocateStrategy,omitempty"`
}

// PlacementVersion is the version of the Placements that this package writes,
// and the highest it reads.
const PlacementVersion = 1

// Placement is the value of AnnotationPlacement: which CPUs the containers of
// a bound pod have.
type Placement struct {
	// V is the version of the form, 1 to PlacementVersion.
	V int `json:"v"`
	// Topology is the NodeTopologySpec.Hash that the CPUs were chosen by.
	Topology string `json:"topology"`
	// Exclusive is the exclusivity that was granted, CPUExclusivePCPULevel or
	// CPUExclusiveNUMANodeLevel; empty where none was.
	Exclusive CPUExclusivePolicy `json:"exclusive,omitempty"`
	// NUMAExclusive says that a NUMAExclusive was granted.
	NUMAExclusive bool `json:"numaExclusive,omitempty"`
	// Containers holds the pinned containers by name.
	Containers map[string]ContainerPlacement `json:"containers"`
}

// ContainerPlacement is the part of one container.
type ContainerPlacement struct {
	// CPUs is a CPU list, not empty.
	CPUs string `json:"cpus"`
	// Mems are the NUMA nodes that memory may come from, in the same format.
	Mems string `json:"mems"`
	// Policy says what CPUs means: all the container has, or what is reserved.
	Policy PlacementPolicy `json:"policy"`
	// Domain is where a PlacementStaticBurst container widens, "l3:" or "numa:"
	// and the id; empty for all others.
	Domain string `json:"domain,omitempty"`
	// First are those of CPUs that the container had before it was resized to more: it
	// keeps them when it is resized to fewer. Empty where these are all of CPUs.
	First string `json:"first,omitempty"`
}

// MoveVersion is the version of the Moves that this package writes, and the highest it reads.
const MoveVersion = 1

// Move is the value of AnnotationMove: other CPUs of its node for a pod that runs. It stands
// until the agent of the node removes it, since the pod has the CPUs, or says in it why not.
type Move struct {
	// V is the version of the form, 1 to MoveVersion.
	V int `json:"v"`
	// From are the CPUs that the pod has, of all containers together, as a CPU list, and To as
	// many that it is to have.
	From string `json:"from"`
	To   string `json:"to"`
	// Withdrawn says that it is not to begin any more.
	Withdrawn bool `json:"withdrawn,omitempty"`
	// Refused is why the agent did not begin it, empty where it was not asked yet.
	Refused string `json:"refused,omitempty"`
}

// PlacementPolicy is the way in which a container holds its CPUs.
type PlacementPolicy string

// The ways.
const (
	// PlacementExclusive is one whose CPUs are its own, and it has no others.
	PlacementExclusive PlacementPolicy = "exclusive"
	// PlacementStaticBurst is one that also uses CPUs of its domain that are
	// not reserved.
	PlacementStaticBurst PlacementPolicy = "static-burst"
)

// PlacementPolicies returns the policies in the order of messages and documentation.
func PlacementPolicies() []PlacementPolicy {
	return []PlacementPolicy{PlacementExclusive, PlacementStaticBurst}
}
