package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// KindSchedulerArgs is the kind of SchedulerArgs, where one is written.
const KindSchedulerArgs = "SchedulerArgs"

// SchedulerArgs are the args of the plugin in a KubeSchedulerConfiguration. All
// may be left out, apiVersion and kind too.
type SchedulerArgs struct {
	metav1.TypeMeta `json:",inline"`

	// Namespaces are those whose pods may have exclusive CPUs; empty means all.
	Namespaces []string `json:"namespaces,omitempty"`
	// MaxPinnedCPUsPerNamespace caps the CPUs that the pods of one namespace
	// have for themselves in the cluster, 0 to 2^31-1. 0 sets no cap. Never nil
	// after SetSchedulerArgsDefaults.
	MaxPinnedCPUsPerNamespace *int64 `json:"maxPinnedCPUsPerNamespace,omitempty"`
	// RequestBelowLimit says what becomes of a pod that asks for CPUs of its
	// own and requests less than it gets, one of RequestBelowLimits.
	RequestBelowLimit RequestBelowLimit `json:"requestBelowLimit,omitempty"`
	// NUMAAllocateStrategy, one of NUMAAllocateStrategies, counts where neither the
	// pod nor the label of the node says one.
	NUMAAllocateStrategy NUMAAllocateStrategy `json:"numaAllocateStrategy,omitempty"`
	// SayFitsAfterRepack has a node that refuses a pod say after how many moves of other pods
	// it would take it, where such moves are known.
	SayFitsAfterRepack bool `json:"sayFitsAfterRepack,omitempty"`
	// LeaseNamespace is where the agents keep their Leases, which have the
	// names of the nodes.
	LeaseNamespace string `json:"leaseNamespace,omitempty"`
	// StaleAfterSeconds is the age of an agent's Lease, 0 to 86400 seconds,
	// above which its node gets no more pods with exclusive CPUs. 0 means
	// that Leases are not looked at. Never nil after SetSchedulerArgsDefaults.
	StaleAfterSeconds *int64 `json:"staleAfterSeconds,omitempty"`
}

// RequestBelowLimit is a rule for pods whose request hides what they get.
type RequestBelowLimit string

// The rules.
const (
	// RequestBelowLimitAllow schedules them by what they get.
	RequestBelowLimitAllow RequestBelowLimit = "allow"
	// RequestBelowLimitDeny leaves them pending with the reason.
	RequestBelowLimitDeny RequestBelowLimit = "deny"
)

// RequestBelowLimits returns the rules in the order of messages and documentation.
func RequestBelowLimits() []RequestBelowLimit {
	return []RequestBelowLimit{RequestBelowLimitAllow, RequestBelowLimitDeny}
}
