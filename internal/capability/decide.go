package capability

import (
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/topology"
)

// Decider is a Capability that changes the host. Once a second, and after every event, each Decider decides in the
// order of the list, from observations and from the data of the Deciders before it.
type Decider interface {
	// Decide returns the desired settings. It writes to n what the Deciders after it must know.
	Decide(n *Node) Decision
}

// Node is the input of a round of decisions.
type Node struct {
	// Now is monotonic.
	Now time.Duration
	// Online are the CPUs that are online, Isolated the CPUs on which the kernel balances nothing (isolcpus=).
	Online, Isolated cpuset.Set
	// Topology is the host's topology, a new value after each change, and nil while unknown. No code changes it.
	Topology *topology.Topology
	// Exclusive are the CPUs outside the shared pool of online workloads: exclusive CPUs of workloads, and the CPUs of
	// offline work. Unlimited are the groups without a quota because of exclusive CPUs: their quotas have no other
	// owner.
	Exclusive cpuset.Set
	Unlimited map[string]bool
	// Offline has the cores that offline work has, or gets with its first container.
	Offline Offline
	// Reserved is the number of exclusive CPUs of groups that retain their quota: they may also run on shared CPUs.
	Reserved map[string]int
	// Config is the agent's file, with its defaults.
	Config *v1alpha1.AgentConfig
	// Containers are the running containers of known pods, and the workloads of a host without Kubernetes. Readers must
	// not change the list: it is the same list until something changes.
	Containers []Container
	// Koordlet is the pod of Koordinator's or ACK's node agent on this node, as namespace/name, empty for none.
	Koordlet string
	// KeepsMems reports whether the pages of a running group must stay for a while longer, so that its memory nodes are
	// not restricted to these. It is nil if no page ever moves.
	KeepsMems func(group string, to cpuset.Set) bool
}

// Offline has the cores of offline work. The zero value gives it none: it shares the pool.
type Offline struct {
	// Cores are the cores that it may have, in order. It has the first Size of them, except cores of which a workload
	// has an exclusive CPU.
	Cores []cpuset.Set
	// Size is how many it has, Low how many it is guaranteed while there are so many.
	Size, Low int
	// Reserve has the CPUs that it leaves free while it has no cores of its own.
	Reserve cpuset.Set
	// Why is the reason for these cores, or this reserve, for people.
	Why string
}

// Equal reports whether two values are the same.
func (o Offline) Equal(other Offline) bool {
	return o.Size == other.Size && o.Low == other.Low && o.Reserve == other.Reserve && o.Why == other.Why && slices.Equal(o.Cores, other.Cores)
}

// Container is a running container, or a workload of a host without Kubernetes.
type Container struct {
	// PodUID names the pod of an event or an annotation.
	PodUID string
	// Name is namespace/pod/container, or the name of the workload. Pod and Container are
	// its parts; Pod is empty for a workload.
	Name, Pod, Container string
	// ID changes at a restart of the container, where a runtime says so.
	ID, Group string
	// PodGroup is the group of the pod, empty for a workload or while unknown. Resizing means that the kubelet writes
	// to it: see workload.Pod.
	PodGroup string
	Resizing bool
	// Labels and Annotations are those of the pod, or of the workload.
	Labels, Annotations map[string]string
	// Class is its class on this node. QOS is what that class gets, with the node's strategy before the cluster's,
	// QOSSource where it is written.
	Class     v1alpha1.QoSClass
	QOS       v1alpha1.ClassQOS
	QOSSource string
	// Bound means that its CPUs are its own, no matter who set them: it is not in the shared pool.
	Bound bool
}

// Whole returns the group of its whole pod, empty while unknown, and for a workload its own group.
func (c *Container) Whole() string {
	if c.Pod == "" {
		return c.Group
	}
	return c.PodGroup
}

// PodOf returns the UID of the pod that a group belongs to, or a container of the pod, "" for other groups.
func PodOf(all []Container, group string) string {
	for i := range all {
		if all[i].Group == group || all[i].PodGroup == group {
			return all[i].PodUID
		}
	}
	return ""
}

// Event is a fact that people must learn: it is logged, and in a cluster becomes an Event of the pod, or of the node.
type Event struct {
	// PodUID is empty for an event about the node.
	PodUID string
	// Reason is one word, Text one or more sentences.
	Reason, Text string
	// Warning marks a problem, unlike a normal event.
	Warning bool
}

// Annotation is an annotation to write to a pod, in a cluster.
type Annotation struct{ PodUID, Key, Value string }

// Decision is the decision of one capability.
type Decision struct {
	// Settings are all desired settings. A setting that is not in the list any more gets back its original. The list is
	// compared with later lists: a Decider that returned it makes a new list instead of changing it.
	Settings []plan.Desired
	// Events are the new events, once.
	Events []Event
	// Annotations are to be written to pods, once.
	Annotations []Annotation
	// Held means that too little is known to decide: until it is known nothing is written, and nothing restored.
	Held bool
}

// Add adds the decision of another capability.
func (d *Decision) Add(more Decision) {
	if len(d.Settings) == 0 {
		d.Settings = slices.Clip(more.Settings) // later additions go to another list
	} else {
		d.Settings = append(d.Settings, more.Settings...)
	}
	d.Events = append(d.Events, more.Events...)
	d.Annotations, d.Held = append(d.Annotations, more.Annotations...), d.Held || more.Held
}

// SameList reports whether two lists of Node.Containers are the same list, so that nothing changed.
func SameList(a, b []Container) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
