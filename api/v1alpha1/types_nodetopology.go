package v1alpha1

import (
	"cmp"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// KindNodeTopology and NodeTopologyResource name the type in the API.
const (
	KindNodeTopology     = "NodeTopology"
	NodeTopologyResource = "nodetopologies"
)

// Conditions of a NodeTopology.
const (
	// ConditionReady is true while the agent does its work.
	ConditionReady = "Ready"
	// ConditionPinnable is false, with the reason, while Berth sets no CPU set
	// on the node, for example because another program owns them.
	ConditionPinnable = "Pinnable"
	// ConditionSharedPoolOvercommitted is true while the containers without
	// exclusive CPUs request more than the CPUs that are left to them.
	ConditionSharedPoolOvercommitted = "SharedPoolOvercommitted"
	// ConditionIsolated is true while no core runs both online and offline containers. It is missing if there is no
	// offline work, or if it was not to get cores of its own.
	ConditionIsolated = "Isolated"
)

// PinnableRestored is the reason of a ConditionPinnable that is false because the agent restored everything, as the
// cluster's configuration asked, and writes nothing more.
const PinnableRestored = "Restored"

// NodeTopology says which CPUs a node has and how they are related. Each node has one, with the node's name, written by
// the node's agent.
//
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=nodetopologies,singular=nodetopology,shortName=nt,scope=Cluster
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Sockets",type=integer,JSONPath=`.status.counts.sockets`
// +kubebuilder:printcolumn:name="NUMA",type=integer,JSONPath=`.status.counts.numaNodes`
// +kubebuilder:printcolumn:name="L3",type=integer,JSONPath=`.status.counts.l3`
// +kubebuilder:printcolumn:name="Cores",type=integer,JSONPath=`.status.counts.cores`
// +kubebuilder:printcolumn:name="CPUs",type=integer,JSONPath=`.status.counts.cpus`
// +kubebuilder:printcolumn:name="Free",type=integer,description="CPUs that a pod can still get for itself",JSONPath=`.status.freeCPUs`
// +kubebuilder:printcolumn:name="Fragmentation",type=integer,description="percent of the CPUs that no pod has, in partly used L3 domains",JSONPath=`.status.fragmentation`
// +kubebuilder:printcolumn:name="Pinnable",type=string,JSONPath=`.status.conditions[?(@.type=="Pinnable")].status`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
type NodeTopology struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec NodeTopologySpec `json:"spec"`
	// +optional
	Status NodeTopologyStatus `json:"status,omitempty,omitzero"`
}

// NodeTopologyList is a list of NodeTopologies.
//
// +kubebuilder:object:root=true
type NodeTopologyList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []NodeTopology `json:"items"`
}

// CPUList is a set of CPUs (or of NUMA nodes) in the kernel's list format, ids
// 0 to 1023: "0-3,8". A range may carry a stride: "0-254:1/2" are the even CPUs
// up to 254. The empty list is the empty set.
//
// +kubebuilder:validation:MaxLength=4096
// +kubebuilder:validation:Pattern=`^([0-9]{1,4}(-[0-9]{1,4}(:[0-9]{1,4}/[0-9]{1,4})?)?(,[0-9]{1,4}(-[0-9]{1,4}(:[0-9]{1,4}/[0-9]{1,4})?)?)*)?$`
type CPUList string

// NodeTopologySpec describes the machine. Every online CPU is in exactly one core; sockets, dies, NUMA nodes and L3
// domains are disjoint among themselves.
//
// +kubebuilder:object:generate=true
// +kubebuilder:validation:XValidation:rule="self.numaNodes.all(n, size(n.distances) == size(self.numaNodes))",message="each of numaNodes needs one distance for each of numaNodes"
type NodeTopologySpec struct {
	// Hash identifies the shape: which CPU is in which core, L3 domain, NUMA node and socket. It has 16 hexadecimal
	// digits. A placement made for another hash is not valid.
	// +kubebuilder:validation:Pattern=`^[0-9a-f]{16}$`
	Hash string `json:"hash"`
	// Online holds the CPUs that run tasks.
	// +kubebuilder:validation:MinLength=1
	Online CPUList `json:"online"`
	// Offline holds the CPUs that are present and switched off.
	// +optional
	Offline CPUList `json:"offline,omitempty"`
	// Sockets are the physical packages, by id.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=1024
	Sockets []CPUGroup `json:"sockets,omitempty"`
	// Dies are the dies of each socket, as far as the kernel reports them.
	// Their ids are unique within the socket.
	// +optional
	// +listType=map
	// +listMapKey=socket
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=1024
	Dies []DieGroup `json:"dies,omitempty"`
	// NUMANodes are the NUMA nodes, also those without CPUs or without memory.
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	NUMANodes []NUMANode `json:"numaNodes"`
	// L3 holds the domains that share a third level cache.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=1024
	L3 []CPUGroup `json:"l3,omitempty"`
	// Cores holds the online threads of each core.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=1024
	Cores []CPUList `json:"cores"`
	// EfficiencyCPUs are the CPUs of efficiency cores; empty on a machine with
	// one kind of core.
	// +optional
	EfficiencyCPUs CPUList `json:"efficiencyCPUs,omitempty"`
	// ReservedCPUs are kept for the system and never given to a pod.
	// +optional
	ReservedCPUs CPUList `json:"reservedCPUs,omitempty"`
	// IsolatedCPUs are the CPUs of the isolcpus boot argument and of isolated cpuset partitions.
	// +optional
	IsolatedCPUs CPUList `json:"isolatedCPUs,omitempty"`
	// Devices are the resources of device plugins whose devices are each in one NUMA node, according to what the
	// kubelet lists as allocatable.
	// +optional
	// +listType=map
	// +listMapKey=resource
	// +kubebuilder:validation:MaxItems=16
	Devices []NodeDevice `json:"devices,omitempty"`
}

// NodeDevice says where the devices of one resource are.
//
// +kubebuilder:object:generate=true
type NodeDevice struct {
	// Resource is its name, such as nvidia.com/gpu.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	Resource string `json:"resource"`
	// PerNUMANode is how many devices are in each NUMA node, in the order of numaNodes.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=1048576
	PerNUMANode []int64 `json:"perNUMANode"`
}

// CPUGroup is a socket or an L3 domain.
//
// +kubebuilder:object:generate=true
type CPUGroup struct {
	// ID is the kernel's number; ids may have gaps.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	ID int64 `json:"id"`
	// CPUs are its online CPUs.
	CPUs CPUList `json:"cpus"`
}

// DieGroup is a die.
//
// +kubebuilder:object:generate=true
type DieGroup struct {
	// ID is the kernel's number, unique within Socket.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=4294967295
	ID int64 `json:"id"`
	// Socket is the id of its socket; -1 where the kernel names none.
	// +kubebuilder:validation:Minimum=-1
	// +kubebuilder:validation:Maximum=4294967295
	Socket int64 `json:"socket"`
	// CPUs are its online CPUs.
	CPUs CPUList `json:"cpus"`
}

// NUMANode is a NUMA node.
//
// +kubebuilder:object:generate=true
type NUMANode struct {
	// ID is the kernel's number; ids may have gaps.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1023
	ID int64 `json:"id"`
	// CPUs are its online CPUs; empty for a node of memory only.
	// +optional
	CPUs CPUList `json:"cpus,omitempty"`
	// MemoryBytes is its usable memory, at most 1 PiB; 0 where it has none.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1125899906842624
	MemoryBytes int64 `json:"memoryBytes,omitempty"`
	// HugePageBytes is the part of its memory that is set aside as huge pages.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1125899906842624
	HugePageBytes int64 `json:"hugePageBytes,omitempty"`
	// HugePages are the pools of which hugePageBytes is the sum, the smallest pages first. If they add up to less, only
	// the sum is known.
	// +optional
	// +listType=map
	// +listMapKey=pageKiB
	// +kubebuilder:validation:MaxItems=8
	HugePages []HugePagePool `json:"hugePages,omitempty"`
	// Distances are the relative costs of memory on each node, in the order of the list; 10 is local.
	// +listType=atomic
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=256
	// +kubebuilder:validation:items:Minimum=0
	// +kubebuilder:validation:items:Maximum=65535
	Distances []int64 `json:"distances"`
}

// HugePagePool has all huge pages of one size in a NUMA node, used or not.
//
// +kubebuilder:object:generate=true
type HugePagePool struct {
	// PageKiB is the size of a page in KiB: 1048576 for hugepages-1Gi.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	PageKiB int64 `json:"pageKiB"`
	// Pages is how many pages there are.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1099511627776
	Pages int64 `json:"pages"`
}

// NodeTopologyStatus is for people, except for KubeletMemory and ConditionPinnable. A scheduler derives the free CPUs
// from the pods, and sees from a Lease whether the agent is alive. The status is written at most once in 10 seconds.
//
// +kubebuilder:object:generate=true
type NodeTopologyStatus struct {
	// AgentVersion is the version of the agent that wrote it.
	// +optional
	// +kubebuilder:validation:MaxLength=128
	AgentVersion string `json:"agentVersion,omitempty"`
	// PlacementVersions are the versions of Placement that the agent reads.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=16
	PlacementVersions []int64 `json:"placementVersions,omitempty"`
	// KubeletCPUManagerPolicy is the kubelet's cpuManagerPolicy.
	// +optional
	// +kubebuilder:validation:MaxLength=64
	KubeletCPUManagerPolicy string `json:"kubeletCPUManagerPolicy,omitempty"`
	// Counts says how many sockets, NUMA nodes, L3 domains, cores and CPUs there are.
	// +optional
	Counts NodeTopologyCounts `json:"counts,omitzero"`
	// Pools say which CPUs are for what.
	// +optional
	Pools NodePools `json:"pools,omitzero"`
	// FreeCPUs is the number of CPUs that a pod can still get for itself.
	// +optional
	// +kubebuilder:validation:Minimum=0
	FreeCPUs int64 `json:"freeCPUs"`
	// NUMANodes say what is free in each NUMA node.
	// +optional
	// +listType=map
	// +listMapKey=id
	// +kubebuilder:validation:MaxItems=256
	NUMANodes []NUMANodeStatus `json:"numaNodes,omitempty"`
	// KubeletMemory is what the kubelet's memory manager gave to pods that have no
	// placement: schedulers count it in these NUMA nodes.
	// +optional
	// +listType=map
	// +listMapKey=numaNodes
	// +listMapKey=pageKiB
	// +kubebuilder:validation:MaxItems=64
	KubeletMemory []KubeletMemory `json:"kubeletMemory,omitempty"`
	// Fragmentation is the percentage of FreeCPUs that lie in L3 domains (NUMA
	// nodes, where the machine has no L3 domains) which are partly in use: 0 on
	// an empty machine and on a full one.
	// +optional
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=100
	Fragmentation int64 `json:"fragmentation"`
	// Conditions are ConditionReady, ConditionPinnable, ConditionIsolated and
	// ConditionSharedPoolOvercommitted.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=16
	Conditions []metav1.Condition `json:"conditions,omitempty"`
}

// NotPinnable returns why Berth pins nothing on the node, in one word: the reason of a ConditionPinnable that is not
// true, or else its status. The word is empty if that condition is true or missing.
func (s *NodeTopologyStatus) NotPinnable() string {
	for _, condition := range s.Conditions {
		if condition.Type == ConditionPinnable && condition.Status != metav1.ConditionTrue {
			return cmp.Or(condition.Reason, string(condition.Status))
		}
	}
	return ""
}

// NodeTopologyCounts counts what the spec lists.
//
// +kubebuilder:object:generate=true
type NodeTopologyCounts struct {
	Sockets   int64 `json:"sockets"`
	NUMANodes int64 `json:"numaNodes"`
	L3        int64 `json:"l3"`
	Cores     int64 `json:"cores"`
	// CPUs counts the online CPUs.
	CPUs int64 `json:"cpus"`
}

// NodePools divides the online CPUs.
//
// +kubebuilder:object:generate=true
type NodePools struct {
	// Exclusive are the CPUs that pods have for themselves.
	// +optional
	Exclusive CPUList `json:"exclusive,omitempty"`
	// Offline are the CPUs of offline containers, empty if they share the CPUs of all other containers.
	// +optional
	Offline CPUList `json:"offline,omitempty"`
	// Shared are the CPUs of all other containers.
	// +optional
	Shared CPUList `json:"shared,omitempty"`
}

// KubeletMemory is memory in pages of one size that pods have on some NUMA nodes.
//
// +kubebuilder:object:generate=true
type KubeletMemory struct {
	// NUMANodes are the nodes that it may come from, by id.
	NUMANodes CPUList `json:"numaNodes"`
	// PageKiB is the size of a huge page in KiB, 0 for memory that is not in huge pages.
	// +kubebuilder:validation:Minimum=0
	// +kubebuilder:validation:Maximum=1099511627776
	PageKiB int64 `json:"pageKiB"`
	// Bytes is how much it is, at most 1 PiB.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1125899906842624
	Bytes int64 `json:"bytes"`
}

// NUMANodeStatus says what is free in one NUMA node.
//
// +kubebuilder:object:generate=true
type NUMANodeStatus struct {
	// ID is the id of the node in the spec.
	ID int64 `json:"id"`
	// FreeCPUs is the number of CPUs that a pod can still get for itself.
	// +kubebuilder:validation:Minimum=0
	FreeCPUs int64 `json:"freeCPUs"`
	// FreeCores is the number of cores that are free as a whole.
	// +kubebuilder:validation:Minimum=0
	FreeCores int64 `json:"freeCores"`
}

// SetCondition adds a condition of the given kind, which is true if holds is, with the reason in one word and a
// sentence. The writer of the object sets the time of the change.
func (s *NodeTopologyStatus) SetCondition(kind string, holds bool, reason, message string) {
	status := metav1.ConditionFalse
	if holds {
		status = metav1.ConditionTrue
	}
	s.Conditions = append(s.Conditions, metav1.Condition{Type: kind, Status: status, Reason: reason, Message: message})
}
