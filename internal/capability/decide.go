package capability

import (
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
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
	// Obstacle is why Berth sets no CPU sets on this node.
	Obstacle observed.Obstacle
	// Exclusive are the CPUs outside the shared pool of online workloads: exclusive CPUs of workloads, and the CPUs of
	// offline work. Before place decides, they are the exclusive CPUs of workloads by the last decision. Unlimited are
	// the groups without a quota because of exclusive CPUs: their quotas have no other owner.
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
	Containers []observed.Workload
	// Present are Containers, and the first container of each pod that is here without a running container, as between
	// two starts. That container has no ID and no group of its own. Readers must not change the list.
	Present []observed.Workload
	// OfflinePods are the offline pods and workloads, also pods that have ended or have no sandbox yet. HasOffline is
	// true if the runtime has created something of an offline pod that is not over.
	OfflinePods []observed.Pod
	HasOffline  bool
	// Policies are what administrators ask for.
	Policies observed.Policies
	// Koordlet is the pod of Koordinator's or ACK's node agent on this node, as namespace/name, empty for none.
	Koordlet string
	// Pages are the pages that localize moves, by group. Wide are the memory nodes that place desires for groups whose
	// pages must move first. Before place decides, they are those of the last round.
	Pages map[string]Pages
	Wide  map[string]cpuset.Set
	// Pods has the UID of the pod of each group whose CPUs place decides.
	Pods map[string]string
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
	// Annotations are the annotations to write to pods, once.
	Annotations []Annotation
	// Touched are groups that another program has just written, or is about to: the next pass checks them.
	Touched []string
	// Unjournaled means that Settings also apply while everything is restored: some of the values in effect have no
	// journal entry yet, as the container runtime wrote them.
	Unjournaled bool
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
	d.Annotations, d.Touched = append(d.Annotations, more.Annotations...), append(d.Touched, more.Touched...)
	d.Held = d.Held || more.Held
}
