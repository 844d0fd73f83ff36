package inventory

import (
	"cmp"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
)

// owner records which program manages CPU sets on this node. There is exactly one, because two would undo each other's
// work: Berth, unless another is found.
type owner struct {
	// agent is another agent of Berth.
	agent observed.Obstacle
	// restoring is a cluster configuration that restores everything.
	restoring observed.Obstacle
	// kubelet is the kubelet, if it sets or may set CPU sets.
	kubelet observed.Obstacle
	// mems says that the kubelet sets memory nodes, "" if it does not.
	mems string
	// peer is a pod of the node that sets CPU sets.
	peer observed.Obstacle
	// sets are the sets that Berth did not set, by container. The container has them while it exists, even if their
	// plugin does not exist any more.
	sets map[string]foreignOwner
}

// obstacle returns the first obstacle.
func (o owner) obstacle() observed.Obstacle { return cmp.Or(o.known(), o.set()) }

// known returns the obstacle that does not depend on the containers' sets.
func (o owner) known() observed.Obstacle { return cmp.Or(o.agent, o.restoring, o.kubelet, o.peer) }

// set returns the obstacle from sets that Berth did not set. Of several, a named plugin comes first, then the first
// container by ID. An unknown writer must have set the sets of two pods of strategy.SystemNamespace and of one in
// another namespace.
//
// A tenant writes only its own namespaces, however many, and an operator gives a list to one pod. Both together do not
// prove a writer of the node, and must not cost all other pods their CPUs. A program that writes the CPU sets of a
// node, as the kubelet does, writes those of every pod, and a node usually has two pods of strategy.SystemNamespace.
//
// On a node with one such pod, Berth works beside the program: the pods that it wrote get no CPUs of their own (ofPod),
// and other pods may share theirs with them. A second list of the operator together with a tenant's still makes an
// obstacle: only the program's name could distinguish the cases, and the runtime does not have it.
func (o owner) set() observed.Obstacle {
	var first observed.Obstacle
	system, elsewhere := map[string]bool{}, false // the pods of strategy.SystemNamespace, each once
	for _, id := range slices.Sorted(maps.Keys(o.sets)) {
		one := o.sets[id]
		if one.Reason == otherPlugin {
			return one.Obstacle
		}
		first = cmp.Or(first, one.Obstacle)
		if one.namespace == strategy.SystemNamespace {
			system[one.pod] = true
		} else {
			elsewhere = true
		}
	}
	if len(system) < 2 || !elsewhere {
		return observed.Obstacle{}
	}
	return first
}

// Kubelet stores the obstacle from the kubelet's configuration. mems is a sentence if the kubelet sets memory nodes, ""
// otherwise.
func (inv *Inventory) Kubelet(o observed.Obstacle, mems string) {
	if inv.owner.kubelet == o && inv.owner.mems == mems {
		return
	}
	inv.owner.kubelet, inv.owner.mems = o, mems
	inv.ownerChanged()
}

// Obstacle returns why Berth sets no CPU sets on this node.
func (inv *Inventory) Obstacle() observed.Obstacle {
	o := inv.owner.obstacle()
	if !inv.started && !o.Restores() { // a restoration from the journal needs no container
		o = inv.clock.starting()
	}
	if o == (observed.Obstacle{}) && inv.topology == nil {
		o = observed.Obstacle{Reason: observed.NoTopology, Message: "the CPUs of the node cannot be read"}
	}
	return o
}

// MemsOwner returns a sentence if the kubelet sets memory nodes, "" otherwise.
func (inv *Inventory) MemsOwner() string { return inv.owner.mems }

// ForeignOwner returns why a pod gets no CPUs of its own because another owner has set those of its containers, "" if
// there is no other owner.
func (inv *Inventory) ForeignOwner(uid string) string { return inv.owner.ofPod(uid) }

// IsAlone reports whether no other agent holds the Lease of this node, as far as the API server said.
func IsAlone(inv *Inventory) bool { return inv.owner.agent == (observed.Obstacle{}) }

// Settled reports whether enough is known to change or restore CPU sets: the CPUs of the node and, in a cluster, its
// pods and the owner of CPU sets. An agent that has just started knows no container yet, and must not conclude that
// there is none.
func (inv *Inventory) Settled(inCluster bool) bool {
	if inv.topology == nil || !inCluster {
		return inv.topology != nil
	}
	return inv.snapshot.PodsFrom != cluster.Nowhere && !inv.Obstacle().Suspends()
}

// starting returns the obstacle that the runtime has not reported its containers yet. They retain their CPUs: Berth
// decides nothing before it knows them.
func (c clock) starting() observed.Obstacle {
	if c.began == never || c.now-c.began < observed.BriefFor {
		return observed.Obstacle{Reason: observed.Starting, Message: "the container runtime has not reported its containers yet"}
	}
	return observed.Obstacle{Reason: observed.Starting, Message: "the container runtime does not report its containers", Lasting: true}
}

// peers looks for pods of other programs that set CPU sets. Only pods in the namespaces of administrators qualify: a
// tenant must not be able to disable Berth by a name.
func (o *owner) peers(pods []*cluster.Pod) {
	o.peer = observed.Obstacle{}
	for _, p := range pods {
		switch {
		case p.Ended:
		case strategy.Koordlet(&p.Pod):
			o.peer = observed.Obstacle{Reason: observed.Koordlet, Message: "koordlet sets the CPU sets of this node (pod " + p.Key + ")"}
		case p.Namespace == strategy.SystemNamespace && p.Labels["app"] == "dracpu":
			o.peer = observed.Obstacle{Reason: observed.DRADriver, Message: "a DRA driver for CPUs sets the CPU sets of this node (pod " + p.Key + ")"}
		}
	}
}
