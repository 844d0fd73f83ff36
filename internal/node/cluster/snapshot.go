package cluster

import (
	"time"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
)

// Source is where data was read.
type Source uint8

// The sources.
const (
	// Nowhere means that nothing was read yet.
	Nowhere Source = iota
	// APIServer is the API server, up to date as far as is known.
	APIServer
	// Kubelet is the kubelet's own list, while the API server does not answer.
	Kubelet
	// Remembered is the last known state, while neither the API server nor the kubelet answers.
	Remembered
)

// String returns the source for messages.
func (s Source) String() string {
	switch s {
	case APIServer:
		return "API server"
	case Kubelet:
		return "kubelet"
	case Remembered:
		return "memory"
	default:
		return "nowhere"
	}
}

// Snapshot is everything that is known at one moment. It is immutable; snapshots may share parts.
type Snapshot struct {
	// Generation grows with every change; 0 means that nothing is known.
	Generation uint64
	// Pods are the pods of this node, each UID once, in order of UIDs. They include ended pods that are still known.
	Pods []*Pod
	// PodsFrom is where Pods was read. While it is Nowhere, Pods is meaningless: there may be pods.
	PodsFrom Source
	// ConfigMaps are those of strategy.Names that exist.
	ConfigMaps strategy.Maps
	// ConfigMapsRead reports whether all were looked up at least once. Before that, a missing ConfigMap may exist.
	ConfigMapsRead bool
	// Node is the node.
	Node Node
	// Lease shows which agent is the agent of the node.
	Lease Lease
	// AwaySince is when the API server stopped answering; zero while it answers.
	AwaySince time.Time
	// Away is the last error of the API server, nil while it answers.
	Away error
}

// Pod is a pod of this node.
type Pod struct {
	// Pod is the part of the pod that its CPUs depend on. Its UID is that of the kubelet and the runtime.
	workload.Pod

	// Key is "namespace/name".
	Key string
	// Object identifies the pod on the API server, for events and annotations. Its UID is empty for a static pod
	// without a mirror.
	Object Object
	// Static is true for a pod from the kubelet's own files.
	Static bool
	// Deleting is true once the pod's deletion began.
	Deleting bool
	// BestEffort is the Kubernetes class of pods without requests and limits.
	BestEffort bool
	// RuntimeClass is the name of the pod's RuntimeClass; empty for the default.
	RuntimeClass string
	// From is where this pod was read: APIServer or Kubelet.
	From Source

	version string // resourceVersion
}

// Memory is the part of a Snapshot that is worth keeping over a restart. It can be encoded as JSON.
type Memory struct {
	Pods []*Pod
	Node Node
	// ConfigMaps are used until each was looked up.
	ConfigMaps strategy.Maps
}

// Object identifies an object on the API server.
type Object struct{ Namespace, Name, UID string }

// Node is the node as the API server has it.
type Node struct {
	// UID is empty until the node was read.
	UID string
	// Labels are the labels of the node. Callers do not change them.
	Labels map[string]string
	// AllocatableMilli is the CPU that pods may request, in thousandths.
	AllocatableMilli int64
}

// Lease shows which agent is the agent of the node.
type Lease struct {
	// Held reports whether this agent is: it renewed the Lease, and no other agent has acquired it, as far as is known.
	Held bool
	// Other is the identity of another agent that holds and renews the Lease, or empty. If it is set, this agent must
	// write nothing, neither to the API server nor to the host.
	Other string
	// Renewed is when this agent last renewed the Lease.
	Renewed time.Time
}
