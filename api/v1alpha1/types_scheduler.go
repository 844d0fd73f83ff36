package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindSchedulerArgs is the kind of SchedulerArgs, if a kind is written.
const KindSchedulerArgs = "SchedulerArgs"

// SchedulerArgs are the args of the plugin in a KubeSchedulerConfiguration. All fields are optional, including
// apiVersion and kind.
type SchedulerArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Namespaces are the namespaces whose pods may have exclusive CPUs; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// MaxPinnedCPUsPerNamespace caps the exclusive CPUs of the pods of one namespace in the cluster, 0 to 2^31-1. 0
	// sets no cap. Never nil after SetSchedulerArgsDefaults.
	MaxPinnedCPUsPerNamespace *int64 `json:"maxPinnedCPUsPerNamespace,omitempty"`
	// RequestBelowLimit says what happens to a pod that asks for exclusive CPUs and requests less than it gets, one of
	// RequestBelowLimits.
	RequestBelowLimit RequestBelowLimit `json:"requestBelowLimit,omitempty"`
	// NUMAAllocateStrategy, one of NUMAAllocateStrategies, applies if neither the pod nor the label of the node
	// specifies a strategy. If it is absent, it is LeastAllocated in a profile whose NodeResourcesFit says so
	// explicitly, else MostAllocated.
	NUMAAllocateStrategy NUMAAllocateStrategy `json:"numaAllocateStrategy,omitempty"`
	// SayFitsAfterRepack makes a node that refuses a pod report after how many moves of other pods it would accept the
	// pod, if such moves are known.
	SayFitsAfterRepack bool `json:"sayFitsAfterRepack,omitempty"`
	// LeaseNamespace is the namespace of the agents' Leases, which have the names of the nodes.
	LeaseNamespace string `json:"leaseNamespace,omitempty"`
	// StaleAfterSeconds is the age of an agent's Lease, 0 to 86400 seconds, above which its node gets no more pods with
	// exclusive CPUs. 0 means that Leases are not checked. Never nil after SetSchedulerArgsDefaults.
	StaleAfterSeconds *int64 `json:"staleAfterSeconds,omitempty"`
}

// RequestBelowLimit is a rule for pods that request less than they get.
type RequestBelowLimit string

// The rules.
const (
	// RequestBelowLimitAllow schedules these pods by what they get.
	RequestBelowLimitAllow RequestBelowLimit = "allow"
	// RequestBelowLimitDeny leaves these pods pending, with the reason.
	RequestBelowLimitDeny RequestBelowLimit = "deny"
)

// RequestBelowLimits returns the rules in the order of messages and documentation.
func RequestBelowLimits() []RequestBelowLimit {
	return []RequestBelowLimit{RequestBelowLimitAllow, RequestBelowLimitDeny}
}
