package capability

import (
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/topology"
)

// Decider is a Capability that wants something of the host. Once a second, and whenever
// something happened, each decides in the order of the list: by what was observed, and by
// what those before it handed on.
type Decider interface {
	// Decide says what is desired now. It writes to n what those after it have to know.
	Decide(n *Node) Decision
}

// Node is what a round of decisions goes by.
type Node struct {
	// Now is monotonic.
	Now time.Duration
	// Online are the CPUs that are online, Isolated those on which the kernel balances
	// nothing (isolcpus=).
	Online, Isolated cpuset.Set
	// Topology is that of the host, another one whenever that changed, and nil while it is not
	// known. No code changes it.
	Topology *topology.Topology
	// Exclusive are the CPUs that are not in the shared pool of online workloads: those that
	// workloads have for themselves, and those of offline work. Unlimited are the groups that
	// run without a quota because of the first: their quotas have no other owner.
	Exclusive cpuset.Set
	Unlimited map[string]bool
	// Offline is which cores offline work has, or gets with its first container.
	Offline Offline
	// Reserved is how many CPUs groups have for themselves that keep their quota: they may run
	// on shared ones besides.
	Reserved map[string]int
	// Config is the agent's file, with its defaults.
	Config *v1alpha1.AgentConfig
	// Containers are those that run, of pods that are known, and the workloads of a host
	// without Kubernetes. Whoever reads them changes nothing in them: the list is the same
	// one, and not made anew, until something changed.
	Containers []Container
	// Koordlet is the pod of Koordinator's or ACK's node agent on this node, as
	// namespace/name, empty for none.
	Koordlet string
	// KeepsMems says that the pages of a group that runs have to be where they are a while
	// longer, so that its memory nodes are not narrowed to these. It is nil where no page
	// ever moves.
	KeepsMems func(group string, to cpuset.Set) bool
}

// Offline is which cores are offline work's. The zero value gives it none: it shares the pool.
type Offline struct {
	// Cores are those that it may have, in the order in which it takes them. It has the
	// first Size of them, without those of which a workload has a CPU for itself.
	Cores []cpuset.Set
	// Size is how many it has, Low how many it is guaranteed while there are so many.
	Size, Low int
	// Reserve holds the CPUs that it leaves free while it has no cores of its own.
	Reserve cpuset.Set
	// Why is why it has these, or leaves those, for people.
	Why string
}

// Equal says whether two values are the same.
func (o Offline) Equal(other Offline) bool {
	return o.Size == other.Size && o.Low == other.Low && o.Reserve == other.Reserve && o.Why == other.Why && slices.Equal(o.Cores, other.Cores)
}

// Container is a container that runs, or a workload of a host without Kubernetes.
type Container struct {
	// PodUID names the pod of an event or an annotation.
	PodUID string
	// Name is namespace/pod/container, or the name of the workload. Pod and Container are
	// its parts; Pod is empty for a workload.
	Name, Pod, Container string
	// ID is another one when the container is started anew, where a runtime says so.
	ID, Group string
	// PodGroup is the group of the pod, empty for a workload or where it is not known.
	// Resizing says that the kubelet writes to it: see workload.Pod.
	PodGroup string
	Resizing bool
	// Labels and Annotations are those of the pod, or of the workload.
	Labels, Annotations map[string]string
	// Class is the one that it counts as on this node. QOS is what that class gets, the
	// strategy of the node before that of the cluster, and QOSSource where that is written.
	Class     v1alpha1.QoSClass
	QOS       v1alpha1.ClassQOS
	QOSSource string
	// Bound says that its CPUs are its own, whoever set them: it is not in the shared pool.
	Bound bool
}

// Whole is the group of all of its pod, empty where that is not known, and of a workload its own.
func (c *Container) Whole() string {
	if c.Pod == "" {
		return c.Group
	}
	return c.PodGroup
}

// PodOf returns the UID of the pod that a group is of, or of a container of it, "" for none of
// these.
func PodOf(all []Container, group string) string {
	for i := range all {
		if all[i].Group == group || all[i].PodGroup == group {
			return all[i].PodUID
		}
	}
	return ""
}

// Event is something that people are to know: it is logged, and in a cluster an Event of
// the pod, or of the node.
type Event struct {
	// PodUID is empty for an event about the node.
	PodUID string
	// Reason is one word, Text one or more sentences.
	Reason, Text string
	// Warning marks a problem, unlike a normal event.
	Warning bool
}

// Annotation is what is to be written to a pod, in a cluster.
type Annotation struct{ PodUID, Key, Value string }

// Decision is what one capability wants.
type Decision struct {
	// Settings are all that it desires; what is not among them any more goes back to its
	// original. The list is compared with later ones: whoever returned it makes another one
	// instead of changing it.
	Settings []plan.Desired
	// Events are what people are to know, once.
	Events []Event
	// Annotations are what is to be written to pods, once.
	Annotations []Annotation
	// Held says that too little is known for that: nothing is written, and nothing put
	// back, until it is known.
	Held bool
}

// Add takes over the decision of another capability.
func (d *Decision) Add(more Decision) {
	if len(d.Settings) == 0 {
		d.Settings = slices.Clip(more.Settings) // what is added next goes to another list
	} else {
		d.Settings = append(d.Settings, more.Settings...)
	}
	d.Events = append(d.Events, more.Events...)
	d.Annotations, d.Held = append(d.Annotations, more.Annotations...), d.Held || more.Held
}

// SameList says whether two lists of Node.Containers are the same one, so that nothing changed.
func SameList(a, b []Container) bool {
	return len(a) == len(b) && (len(a) == 0 || &a[0] == &b[0])
}
