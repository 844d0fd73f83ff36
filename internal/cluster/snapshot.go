package cluster

import (
	"time"

	"github.com/berth-project/berth/internal/strategy"
	"github.com/berth-project/berth/internal/workload"
)

// Source says where something was read.
type Source uint8

// The sources.
const (
	// Nowhere is nothing read yet.
	Nowhere Source = iota
	// APIServer is the API server, up to date as far as is known.
	APIServer
	// Kubelet is the kubelet's own list, because the API server does not answer.
	Kubelet
	// Remembered is what was last known: neither of the two answers.
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

// Snapshot is everything that is known, at one moment. It never changes; parts of
// it may be shared with earlier and later ones.
type Snapshot struct {
	// Generation grows with every change; 0 is before anything is known.
	Generation uint64
	// Pods are those of this node, each UID once and in the order of the UIDs.
	// Ended ones are among them as long as they are known.
	Pods []*Pod
	// PodsFrom is where Pods was read. While it is Nowhere, Pods says nothing:
	// there may be pods.
	PodsFrom Source
	// ConfigMaps are those of strategy.Names that exist.
	ConfigMaps strategy.Maps
	// ConfigMapsRead says that each of them was looked for at least once. Before
	// that a ConfigMap that is missing may exist.
	ConfigMapsRead bool
	// Node is the node.
	Node Node
	// Lease says who the agent of the node is.
	Lease Lease
	// AwaySince is when the API server stopped answering; zero while it answers.
	AwaySince time.Time
	// Away is what it said last, nil while it answers.
	Away error
}

// Pod is a pod of this node.
type Pod struct {
	// Pod is the pod as its CPUs depend on it. Its UID is the one that the kubelet
	// and the runtime know the pod by.
	workload.Pod

	// Key is "namespace/name".
	Key string
	// Object names the pod on the API server, for events and annotations. Its UID
	// is empty for a static pod that has no mirror there.
	Object Object
	// Static is a pod of the kubelet's own files.
	Static bool
	// Deleting says that the pod is to end.
	Deleting bool
	// BestEffort is the Kubernetes class of pods without requests and limits.
	BestEffort bool
	// RuntimeClass is the name of the pod's RuntimeClass; empty for the default.
	RuntimeClass string
	// From is where this pod was read: APIServer or Kubelet.
	From Source

	version string // resourceVersion
}

// Memory is what of a Snapshot is worth keeping over a restart. It can be encoded
// as JSON and back.
type Memory struct {
	Pods []*Pod
	Node Node
	// ConfigMaps count until each was looked for.
	ConfigMaps strategy.Maps
}

// Object names an object on the API server.
type Object struct{ Namespace, Name, UID string }

// Node is the node as the API server has it.
type Node struct {
	// UID is empty while the node was not read yet.
	UID string
	// Labels of the node. Callers do not change them.
	Labels map[string]string
	// AllocatableMilli is the CPU that pods may request, in thousandths.
	AllocatableMilli int64
}

// Lease says which agent is the one of the node.
type Lease struct {
	// Held says that this agent is: it renewed the Lease, and no other agent took it
	// since, as far as is known.
	Held bool
	// Other is the identity of another agent that holds the Lease and renews it,
	// empty where there is none. This agent must then write nothing, neither to
	// the API server nor to the host.
	Other string
	// Renewed is when this agent last renewed it.
	Renewed time.Time
}
