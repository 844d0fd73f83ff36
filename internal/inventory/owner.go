package inventory

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/kubelet"
	"github.com/berth-project/berth/internal/strategy"
)

// Reasons of Obstacles that say nothing about who owns the CPU sets: what was set
// stays as it is meanwhile.
const (
	// KubeletUnknown: whether the kubelet sets CPU sets is not known.
	KubeletUnknown = kubelet.ReasonUnknown
	// OtherAgent: another agent of Berth holds the node's Lease.
	OtherAgent = "OtherAgent"
	// Starting: the runtime has not reported its containers yet.
	Starting = "Starting"
)

// Restoring is the Reason of an Obstacle that the cluster's configuration is: everything goes back
// to its original, and no capability sees a workload.
const Restoring = "Restoring"

// ForeignCPUSet is the Reason of an Obstacle that sets of containers reveal, of two pods in strategy.SystemNamespace
// and of one in another namespace: their writer is not known.
const ForeignCPUSet = "ForeignCPUSet"

// Obstacle is why Berth sets no CPU sets on this node. The zero value is that it
// does.
type Obstacle struct {
	// Reason is one word, for a condition; Message a sentence.
	Reason, Message string
	// Lasting says of one that Suspends that it has been there for BriefFor. Only then
	// events report it.
	Lasting bool
}

// BriefFor is how long an Obstacle that Suspends may be there until events report to pods
// that ask for CPUs why they have none.
const BriefFor = time.Minute

// Suspends says that the owner of CPU sets is only not known yet, or that another agent
// decides: Berth then sets nothing, and puts nothing back.
func (o Obstacle) Suspends() bool {
	return o.Reason == KubeletUnknown || o.Reason == OtherAgent || o.Reason == Starting
}

// Restores says that everything is put back, and nothing written.
func (o Obstacle) Restores() bool { return o.Reason == Restoring }

// unreported says of one that Suspends that no event reports it yet.
func (o Obstacle) unreported() bool { return o.Suspends() && !o.Lasting }

// owner is what other program may set CPU sets on this node. Two that do undo each other's
// work, so that there is one: Berth, where there is no other.
type owner struct {
	// agent is another agent of Berth.
	agent Obstacle
	// restoring is that the cluster's configuration has everything put back.
	restoring Obstacle
	// kubelet is that the kubelet itself does, or may.
	kubelet Obstacle
	// mems is that the kubelet sets memory nodes, "" where it does not.
	mems string
	// peer is a pod of the node that does.
	peer Obstacle
	// sets are those that Berth did not set, by container. The container has them for as
	// long as it is there, also when the plugin that set them is not any more.
	sets map[string]foreignOwner
}

// obstacle returns the first that stands in the way.
func (o owner) obstacle() Obstacle { return cmp.Or(o.known(), o.set()) }

// known is the one that is known whatever the containers have.
func (o owner) known() Obstacle { return cmp.Or(o.agent, o.restoring, o.kubelet, o.peer) }

// set is a set that Berth did not set, of several always the same one. That of a plugin with a name comes
// first. A writer who is not known has to have set those of two pods of strategy.SystemNamespace and of one in
// another namespace. A tenant writes its own namespaces only, however many, and an operator gives a list to one
// pod: the two together are no writer of the node, and must not cost all others their CPUs. A program that
// writes the CPU sets of a node, as the kubelet does, writes those of every pod, and each node has two pods of
// strategy.SystemNamespace as a rule. Where it has one, Berth goes on beside such a program: the pods that it wrote get
// no CPUs of their own (ofPod), and others may share theirs with them. A second list of the operator's beside a
// tenant's still counts for the node: to tell these from a program takes its name, which the runtime does not have.
func (o owner) set() Obstacle {
	var first Obstacle
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
		return Obstacle{}
	}
	return first
}

// Kubelet takes what the kubelet's configuration says about CPU sets, and whether it sets
// memory nodes: mems is a sentence that says so, "" where it does not.
func (inv *Inventory) Kubelet(o Obstacle, mems string) {
	inv.owner.kubelet, inv.owner.mems = o, mems
	inv.setFacts()
}

// Obstacle returns why Berth sets no CPU sets on this node.
func (inv *Inventory) Obstacle() Obstacle {
	o := inv.owner.obstacle()
	if !inv.started && !o.Restores() { // what the journal has needs no container to be put back
		o = inv.clock.starting()
	}
	if o == (Obstacle{}) && inv.facts.Machine == nil {
		o = Obstacle{Reason: "NoTopology", Message: "the CPUs of the node cannot be read"}
	}
	return o
}

// IsAlone says that no other agent holds the Lease of this node, as far as the API server said.
func IsAlone(inv *Inventory) bool { return inv.owner.agent == (Obstacle{}) }

// Settled says whether enough is known to change CPU sets, or to put them back: the CPUs of
// the node and, in a cluster, its pods and who owns CPU sets. An agent that was just started
// knows no container yet, and must not take that for no container being there.
func (inv *Inventory) Settled(inCluster bool) bool {
	if inv.facts.Machine == nil || !inCluster {
		return inv.facts.Machine != nil
	}
	return inv.snapshot.PodsFrom != cluster.Nowhere && !inv.Obstacle().Suspends()
}

// starting is that the runtime has not reported its containers yet. They keep their CPUs:
// Berth decides nothing before it knows them.
func (c clock) starting() Obstacle {
	if c.began == never || c.now-c.began < BriefFor {
		return Obstacle{Reason: Starting, Message: "the container runtime has not reported its containers yet"}
	}
	return Obstacle{Reason: Starting, Message: "the container runtime does not report its containers", Lasting: true}
}

// peers looks for pods of others that set CPU sets. Only pods in the namespaces of
// administrators count: a tenant must not be able to switch Berth off by a name.
func (o *owner) peers(pods []*cluster.Pod) {
	o.peer = Obstacle{}
	for _, p := range pods {
		switch {
		case p.Ended:
		case strategy.Koordlet(&p.Pod):
			o.peer = Obstacle{Reason: "Koordlet", Message: "koordlet sets the CPU sets of this node (pod " + p.Key + ")"}
		case p.Namespace == strategy.SystemNamespace && p.Labels["app"] == "dracpu":
			o.peer = Obstacle{Reason: "DRADriver", Message: "a DRA driver for CPUs sets the CPU sets of this node (pod " + p.Key + ")"}
		}
	}
}
