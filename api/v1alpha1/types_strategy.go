package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BurstStrategies is the value of the key cpu-burst-config of a cluster's configuration.
type BurstStrategies struct {
	// ClusterStrategy applies to all nodes.
	ClusterStrategy BurstStrategy `json:"clusterStrategy,omitzero"`
	// NodeStrategies override ClusterStrategy, field by field. If several match a node the first applies.
	NodeStrategies []NodeBurstStrategy `json:"nodeStrategies,omitempty"`
}

// NodeBurstStrategy is a BurstStrategy for some nodes.
type NodeBurstStrategy struct {
	NodeProfile   `json:",inline"`
	BurstStrategy `json:",inline"`
}

// NodeProfile says which nodes a strategy is for.
type NodeProfile struct {
	// Name is for people.
	Name string `json:"name,omitempty"`
	// NodeSelector chooses nodes by their labels; it is required.
	NodeSelector *metav1.LabelSelector `json:"nodeSelector,omitempty"`
}

// Selector returns NodeSelector.
func (p NodeProfile) Selector() *metav1.LabelSelector { return p.NodeSelector }

// NamespaceSwitch switches bursting for all pods of a namespace.
type NamespaceSwitch struct {
	// EnabledNamespaces are the namespaces with the policy CPUBurstAuto.
	EnabledNamespaces []string `json:"enabledNamespaces,omitempty"`
	// DisabledNamespaces are the namespaces with the policy CPUBurstNone, including namespaces in both lists.
	DisabledNamespaces []string `json:"disabledNamespaces,omitempty"`
}

// ResourceQOSStrategies is the value of the key resource-qos-config of a cluster's configuration.
type ResourceQOSStrategies struct {
	// ClusterStrategy applies to all nodes.
	ClusterStrategy ResourceQOS `json:"clusterStrategy,omitzero"`
	// NodeStrategies override ClusterStrategy. If several match a node the first applies.
	NodeStrategies []NodeResourceQOS `json:"nodeStrategies,omitempty"`
}

// NodeResourceQOS is a ResourceQOS for some nodes.
type NodeResourceQOS struct {
	NodeProfile `json:",inline"`
	ResourceQOS `json:",inline"`
}

// ResourceQOS says what each class of work may do to other classes. A nil class is unspecified.
type ResourceQOS struct {
	// Policies choose the means by which classes are kept apart.
	Policies *QOSPolicies `json:"policies,omitempty"`
	// LSRClass is for the classes LSE and LSR.
	LSRClass *ClassQOS `json:"lsrClass,omitempty"`
	// LSClass is for the class LS and for pods without a class.
	LSClass *ClassQOS `json:"lsClass,omitempty"`
	// BEClass is for the class BE and for pods that Kubernetes calls BestEffort.
	BEClass *ClassQOS `json:"beClass,omitempty"`
	// SystemClass is for the class SYSTEM.
	SystemClass *ClassQOS `json:"systemClass,omitempty"`
	// CgroupRoot belongs to Koordinator and has no effect in Berth.
	CgroupRoot map[string]any `json:"cgroupRoot,omitempty"`
}

// QOSPolicies choose the means by which classes are kept apart.
type QOSPolicies struct {
	// CPUPolicy is "groupIdentity" or "coreSched".
	CPUPolicy *string `json:"cpuPolicy,omitempty"`
	// NetQOSPolicy belongs to Koordinator and has no effect in Berth.
	NetQOSPolicy *string `json:"netQOSPolicy,omitempty"`
}

// ClassQOS configures one class. Berth reads CPUQOS and MemoryLocality, and reports an enabled ResctrlQOS as not
// implemented; all other fields belong to Koordinator.
type ClassQOS struct {
	// CPUQOS says how the class shares CPUs.
	CPUQOS *ClassCPUQOS `json:"cpuQOS,omitempty"`
	// MemoryLocality says whether the memory of its workloads moves to their CPUs.
	MemoryLocality *MemoryLocality `json:"memoryLocality,omitempty"`
	// ResctrlQOS is about caches and memory bandwidth, which Berth does not set.
	ResctrlQOS map[string]any `json:"resctrlQOS,omitempty"`
	// These three objects have no effect in Berth.
	MemoryQOS  map[string]any `json:"memoryQOS,omitempty"`
	BlkIOQOS   map[string]any `json:"blkioQOS,omitempty"`
	NetworkQOS map[string]any `json:"networkQOS,omitempty"`
}

// ClassCPUQOS says how a class shares CPUs.
type ClassCPUQOS struct {
	// Enable enables all other fields.
	Enable *bool `json:"enable,omitempty"`
	// GroupIdentity is from -1 (yields) to 2 (goes first).
	GroupIdentity *int64 `json:"groupIdentity,omitempty"`
	// SchedIdle 1 marks work that runs only when no other work does.
	SchedIdle *int64 `json:"schedIdle,omitempty"`
	// CoreExpeller keeps offline work off the other SMT sibling of a core.
	CoreExpeller *bool `json:"coreExpeller,omitempty"`
}

// ResourceThresholdStrategies is the value of the key resource-threshold-config of a cluster's configuration.
type ResourceThresholdStrategies struct {
	// ClusterStrategy applies to all nodes.
	ClusterStrategy ResourceThreshold `json:"clusterStrategy,omitzero"`
	// NodeStrategies override ClusterStrategy. If several match a node the first applies.
	NodeStrategies []NodeResourceThreshold `json:"nodeStrategies,omitempty"`
}

// NodeResourceThreshold is a ResourceThreshold for some nodes.
type NodeResourceThreshold struct {
	NodeProfile       `json:",inline"`
	ResourceThreshold `json:",inline"`
}

// ResourceThresholdConfig has the form of the key resource-threshold-config in a cluster's configuration.
type ResourceThresholdConfig struct {
	// ClusterStrategy applies to this host if no ConfigMap has the key.
	ClusterStrategy ResourceThreshold `json:"clusterStrategy,omitzero"`
}

// The policies of ResourceThreshold.CPUSuppressPolicy.
const (
	// CPUSuppressCPUSet gives offline work cores of its own.
	CPUSuppressCPUSet = "cpuset"
	// CPUSuppressCFSQuota limits offline work by a quota.
	CPUSuppressCFSQuota = "cfsQuota"
)

// CPUSuppressPolicies returns the policies in the order of messages and documentation.
func CPUSuppressPolicies() []string { return []string{CPUSuppressCPUSet, CPUSuppressCFSQuota} }

// ResourceThreshold says how much offline work may use. Percentages are 0 to 100.
type ResourceThreshold struct {
	// Enable enables all other fields.
	Enable *bool `json:"enable,omitempty"`
	// CPUSuppressThresholdPercent is the use of the node up to which offline work may fill it.
	CPUSuppressThresholdPercent *int64 `json:"cpuSuppressThresholdPercent,omitempty"`
	// CPUSuppressMinPercent is what offline work always has.
	CPUSuppressMinPercent *int64 `json:"cpuSuppressMinPercent,omitempty"`
	// CPUSuppressPolicy is "cpuset" or "cfsQuota".
	CPUSuppressPolicy *string `json:"cpuSuppressPolicy,omitempty"`

	// All other fields are about eviction, which belongs to Koordinator and has no effect in Berth.
	MemoryEvictThresholdPercent            *int64  `json:"memoryEvictThresholdPercent,omitempty"`
	MemoryEvictLowerPercent                *int64  `json:"memoryEvictLowerPercent,omitempty"`
	CPUEvictBESatisfactionUpperPercent     *int64  `json:"cpuEvictBESatisfactionUpperPercent,omitempty"`
	CPUEvictBESatisfactionLowerPercent     *int64  `json:"cpuEvictBESatisfactionLowerPercent,omitempty"`
	CPUEvictBEUsageThresholdPercent        *int64  `json:"cpuEvictBEUsageThresholdPercent,omitempty"`
	CPUEvictTimeWindowSeconds              *int64  `json:"cpuEvictTimeWindowSeconds,omitempty"`
	CPUEvictPolicy                         *string `json:"cpuEvictPolicy,omitempty"`
	CPUEvictThresholdPercent               *int64  `json:"cpuEvictThresholdPercent,omitempty"`
	CPUAllocatableEvictThresholdPercent    *int64  `json:"cpuAllocatableEvictThresholdPercent,omitempty"`
	CPUAllocatableEvictLowerPercent        *int64  `json:"cpuAllocatableEvictLowerPercent,omitempty"`
	MemoryAllocatableEvictThresholdPercent *int64  `json:"memoryAllocatableEvictThresholdPercent,omitempty"`
	MemoryAllocatableEvictLowerPercent     *int64  `json:"memoryAllocatableEvictLowerPercent,omitempty"`
	CPUEvictLowerPercent                   *int64  `json:"cpuEvictLowerPercent,omitempty"`
}

// Inherit returns r with every absent field that Berth reads copied from parent.
func (r ResourceThreshold) Inherit(parent ResourceThreshold) ResourceThreshold {
	inherit(&r.Enable, parent.Enable)
	inherit(&r.CPUSuppressThresholdPercent, parent.CPUSuppressThresholdPercent)
	inherit(&r.CPUSuppressMinPercent, parent.CPUSuppressMinPercent)
	inherit(&r.CPUSuppressPolicy, parent.CPUSuppressPolicy)
	return r
}
