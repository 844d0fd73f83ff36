package v1alpha1

// Keys of a pod, or of a standalone Workload, that say how its CPUs are chosen. ACK and Koordinator defined all but
// those of berth.dev.
const (
	// AnnotationCPUSetScheduler asks for exclusive CPUs with CPUSetSchedulerOn. With CPUSetSchedulerOff the pod gets
	// none, whatever its class.
	AnnotationCPUSetScheduler = "cpuset-scheduler"
	// AnnotationCPUPolicy extends the request of AnnotationCPUSetScheduler, with CPUPolicyStaticBurst.
	AnnotationCPUPolicy = "cpu-policy"
	// AnnotationResourceSpec holds a ResourceSpec as JSON.
	AnnotationResourceSpec = "scheduling.koordinator.sh/resource-spec"
	// AnnotationNUMATopologySpec holds a NUMATopologySpec as JSON.
	AnnotationNUMATopologySpec = "scheduling.koordinator.sh/numa-topology-spec"
	// AnnotationPlacement holds a Placement as JSON. The scheduler or the agent writes it, and overwrites what a user
	// writes there.
	AnnotationPlacement = "berth.dev/placement"
	// AnnotationMovable allows Berth with Movable to give the pod other CPUs of its node while it runs. NotMovable is
	// the same as a missing key.
	AnnotationMovable = "berth.dev/movable"
	// AnnotationMove holds a Move as JSON: berth repack writes the request, and the agent of the pod's node answers.
	AnnotationMove = "berth.dev/move"
)

// Values of AnnotationMovable: Movable opts in, and NotMovable is the same as a missing key.
const (
	Movable    = "true"
	NotMovable = "false"
)

// Values of AnnotationCPUSetScheduler and AnnotationCPUPolicy.
const (
	CPUSetSchedulerOn    = "true"
	CPUSetSchedulerOff   = "false"
	CPUPolicyStaticBurst = "static-burst"
)

// Labels of a node, set by its administrator, for pods that specify nothing themselves. Koordinator defined them.
const (
	// NodeLabelCPUBindPolicy is a NodeCPUBindPolicy.
	NodeLabelCPUBindPolicy = "node.koordinator.sh/cpu-bind-policy"
	// NodeLabelNUMATopologyPolicy is a NUMATopologyPolicy.
	NodeLabelNUMATopologyPolicy = "node.koordinator.sh/numa-topology-policy"
	// NodeLabelNUMAAllocateStrategy is a NUMAAllocateStrategy.
	NodeLabelNUMAAllocateStrategy = "node.koordinator.sh/numa-allocate-strategy"
)

// CPUBindPolicy says how the CPUs of a container are distributed over cores. The empty value means unspecified.
type CPUBindPolicy string

// The bind policies of a pod.
const (
	// CPUBindDefault is the same as preferring CPUBindFullPCPUs.
	CPUBindDefault CPUBindPolicy = "Default"
	// CPUBindFullPCPUs uses whole cores.
	CPUBindFullPCPUs CPUBindPolicy = "FullPCPUs"
	// CPUBindSpreadByPCPUs uses a different core for every CPU.
	CPUBindSpreadByPCPUs CPUBindPolicy = "SpreadByPCPUs"
	// CPUBindConstrainedBurst is the same as CPUPolicyStaticBurst.
	CPUBindConstrainedBurst CPUBindPolicy = "ConstrainedBurst"
)

// CPUBindPolicies returns the policies in the order of messages and documentation.
func CPUBindPolicies() []CPUBindPolicy {
	return []CPUBindPolicy{CPUBindDefault, CPUBindFullPCPUs, CPUBindSpreadByPCPUs, CPUBindConstrainedBurst}
}

// CPUExclusivePolicy says what a pod does not share with other pinned pods. The empty value means unspecified.
type CPUExclusivePolicy string

// The exclusive policies.
const (
	// CPUExclusiveNone asks for no separation from other pinned pods.
	CPUExclusiveNone CPUExclusivePolicy = "None"
	// CPUExclusivePCPULevel keeps other pinned pods off the pod's cores.
	CPUExclusivePCPULevel CPUExclusivePolicy = "PCPULevel"
	// CPUExclusiveNUMANodeLevel keeps other pinned pods off the pod's NUMA nodes.
	CPUExclusiveNUMANodeLevel CPUExclusivePolicy = "NUMANodeLevel"
)

// CPUExclusivePolicies returns the policies in the order of messages and documentation.
func CPUExclusivePolicies() []CPUExclusivePolicy {
	return []CPUExclusivePolicy{CPUExclusiveNone, CPUExclusivePCPULevel, CPUExclusiveNUMANodeLevel}
}

// NUMATopologyPolicy says over how many NUMA nodes the CPUs of a pod may be spread. The empty value means unspecified.
type NUMATopologyPolicy string

// The NUMA policies.
const (
	// NUMABestEffort uses as few nodes as are available.
	NUMABestEffort NUMATopologyPolicy = "BestEffort"
	// NUMARestricted uses as few nodes as the same request needs on the empty machine.
	NUMARestricted NUMATopologyPolicy = "Restricted"
	// NUMASingleNUMANode uses one node.
	NUMASingleNUMANode NUMATopologyPolicy = "SingleNUMANode"
)

// NUMATopologyPolicies returns the policies in the order of messages and documentation.
func NUMATopologyPolicies() []NUMATopologyPolicy {
	return []NUMATopologyPolicy{NUMABestEffort, NUMARestricted, NUMASingleNUMANode}
}

// NUMAExclusive says whether a pod inside one NUMA node avoids pods that span nodes, and they avoid it. The empty value
// means that it does not.
type NUMAExclusive string

// The strengths of the NUMAExclusive request.
const (
	// NUMAExclusivePreferred gives the separation up rather than have the pod wait.
	NUMAExclusivePreferred NUMAExclusive = "Preferred"
	// NUMAExclusiveRequired makes the pod wait for the separation.
	NUMAExclusiveRequired NUMAExclusive = "Required"
)

// NUMAExclusives returns the values in the order of messages and documentation.
func NUMAExclusives() []NUMAExclusive {
	return []NUMAExclusive{NUMAExclusivePreferred, NUMAExclusiveRequired}
}

// NodeCPUBindPolicy is the value of NodeLabelCPUBindPolicy. Koordinator gave its values other names than those of a
// pod's policy.
type NodeCPUBindPolicy string

// The bind policies of a node.
const (
	// NodeCPUBindNone decides nothing.
	NodeCPUBindNone NodeCPUBindPolicy = "None"
	// NodeCPUBindFullPCPUsOnly requires whole cores of every pod with exclusive CPUs.
	NodeCPUBindFullPCPUsOnly NodeCPUBindPolicy = "FullPCPUsOnly"
	// NodeCPUBindSpreadByPCPUs requires a different core for every CPU.
	NodeCPUBindSpreadByPCPUs NodeCPUBindPolicy = "SpreadByPCPUs"
)

// NodeCPUBindPolicies returns the policies in the order of messages and documentation.
func NodeCPUBindPolicies() []NodeCPUBindPolicy {
	return []NodeCPUBindPolicy{NodeCPUBindNone, NodeCPUBindFullPCPUsOnly, NodeCPUBindSpreadByPCPUs}
}

// NUMAAllocateStrategy says which of equally near CPUs a pod gets. It is the value of NodeLabelNUMAAllocateStrategy,
// and a field of NUMATopologySpec and of the scheduler's arguments.
type NUMAAllocateStrategy string

// The strategies.
const (
	// NUMAMostAllocated fills domains that are already in use, so that whole domains stay free.
	NUMAMostAllocated NUMAAllocateStrategy = "MostAllocated"
	// NUMALeastAllocated uses the domains that are least in use.
	NUMALeastAllocated NUMAAllocateStrategy = "LeastAllocated"
	// NUMADistributeEvenly distributes a pod that needs several NUMA nodes evenly among them.
	NUMADistributeEvenly NUMAAllocateStrategy = "DistributeEvenly"
)

// NUMAAllocateStrategies returns the strategies in the order of messages and documentation.
func NUMAAllocateStrategies() []NUMAAllocateStrategy {
	return []NUMAAllocateStrategy{NUMAMostAllocated, NUMALeastAllocated, NUMADistributeEvenly}
}
