package simulate

import (
	"fmt"
	"slices"
	"strings"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// State is the scheduling state of a pod.
type State string

// The states of a pod.
const (
	// Bound is a pod that has a node.
	Bound State = "bound"
	// Waiting is a pod that no node accepts.
	Waiting State = "pending"
	// Placeable is a pod without a node that a node would accept now.
	Placeable State = "placeable"
)

// Explanation is why a pod is where it is, or why it waits. Its JSON is a stable contract.
type Explanation struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	State     State  `json:"state"`
	// Scheduler is the pod's schedulerName.
	Scheduler string `json:"scheduler"`
	// Node has the pod, or would accept it.
	Node string `json:"node,omitempty"`
	// Pinned is true if the pod requests exclusive CPUs, and may have them.
	Pinned bool `json:"pinned"`
	// Containers are the containers with exclusive CPUs.
	Containers []Container `json:"containers"`
	// LeftEmpty are the siblings that exclusivity withholds from all pods, a list.
	LeftEmpty cpuset.Set `json:"leftEmpty,omitzero"`
	// Why compares the pod's CPUs with the best CPUs that it could get if it came now.
	Why []Reason `json:"why"`
	// Better are the CPUs that it would get now, if they differ.
	Better string `json:"better,omitempty"`
	// Reason and Nodes are as in Pending.
	Reason string       `json:"reason,omitempty"`
	Nodes  []NodeReason `json:"nodes"`
	// Repack is as in Pending.
	Repack *Repack `json:"repack,omitempty"`
	// Condition is what the scheduler itself wrote to the pod's status.
	Condition    string   `json:"condition,omitempty"`
	NotSimulated []Gap    `json:"notSimulated"`
	Warnings     []string `json:"warnings"`
	Notes        []string `json:"notes"`
}

// Explain explains one pod; false if no pod has the name. It must be called before Run.
func (c *Cluster) Explain(namespace, name string) (Explanation, bool) {
	i := slices.IndexFunc(c.all, func(d *demand) bool { return d.pod.Namespace == namespace && d.pod.name() == name })
	if i < 0 {
		return Explanation{}, false
	}
	d := c.all[i]
	x := Explanation{
		Namespace: namespace, Pod: name, Scheduler: d.pod.Spec.SchedulerName, Pinned: d.pinning.Wanted,
		Containers: []Container{}, Why: []Reason{}, Nodes: []NodeReason{}, Condition: scheduledCondition(d.pod.Pod),
		NotSimulated: []Gap{}, Warnings: append([]string{}, d.warnings...), Notes: []string{},
	}
	if d.pod.Spec.NodeName == "" {
		c.explainWaiting(&x, d)
		return x, true
	}
	x.State, x.Node = Bound, d.pod.Spec.NodeName
	c.explainBound(&x, d)
	return x, true
}

// PodNames lists the pods of a namespace.
func (c *Cluster) PodNames(namespace string) []string {
	var names []string
	for _, d := range c.all {
		if d.pod.Namespace == namespace {
			names = append(names, d.pod.name())
		}
	}
	slices.Sort(names)
	return names
}

func scheduledCondition(p *v1.Pod) string {
	for _, condition := range p.Status.Conditions {
		if condition.Type == v1.PodScheduled && condition.Status != v1.ConditionTrue {
			return conditionText(condition.Reason, condition.Message)
		}
	}
	return ""
}

func (c *Cluster) explainWaiting(x *Explanation, d *demand) {
	var nodes []v1.Node
	for _, n := range c.nodes {
		nodes = append(nodes, *n.object)
	}
	x.NotSimulated = append(x.NotSimulated, used([]Pod{d.pod}, nodes)...)
	if note := schedulerNote(x.Scheduler); note != "" {
		x.Notes = append(x.Notes, note)
	}
	if d.pinning.Wanted && c.agents.Unknown != "" {
		x.Notes = append(x.Notes, "not known whether Berth's agents run: "+c.agents.Unknown)
	}
	best, refused := c.bestOf(c.candidates(d), d)
	if len(d.pod.Spec.SchedulingGates) > 0 {
		x.State, x.Reason = Waiting, gated(d).Reason
		x.Notes = append(x.Notes, withoutGates(best, refused))
		return
	}
	if best.node == nil {
		var plans []Repack
		x.Repack, plans = c.repackFor(d, MostMoves)
		x.Nodes = append(x.Nodes, fitting(refused, plans)...)
		x.State, x.Reason = Waiting, Grouped(x.Nodes)
		return
	}
	x.Nodes = append(x.Nodes, refused...)
	x.State, x.Node = Placeable, best.node.name
	if d.pinning.Wanted {
		x.Containers = containersOf(best.verdict.decision.Annotation(&d.ask, best.node.hash), best.node.machine.Topology())
		answer := &best.verdict.decision.Answer
		x.LeftEmpty = LeftEmpty(best.node.machine, answer)
		x.Why = append(Reasons(best.node.state(), &d.ask, answer), memoryReasons(best.node.machine.Topology(), d, x.Containers)...)
		x.NotSimulated = append(x.NotSimulated, c.runningGaps()...)
	}
}

// withoutGates returns what would happen to a gated pod without its gates.
func withoutGates(best choice, refused []NodeReason) string {
	if best.node == nil {
		return "without its scheduling gates no node would take it now: " + Grouped(refused)
	}
	return "without its scheduling gates node " + best.node.name + " would take it now"
}

// IsBerth reports whether a scheduler's name is one of Berth's own profiles.
func IsBerth(schedulerName string) bool { return strings.HasPrefix(schedulerName, "berth") }

// schedulerNote returns a note on the answers for a pod that names another scheduler.
func schedulerNote(name string) string {
	switch {
	case IsBerth(name):
		return ""
	case name == "" || name == v1.DefaultSchedulerName:
		return "it asks for " + v1.DefaultSchedulerName + ", which is Berth only where Berth replaces it: this is what berth-scheduler would do"
	default:
		return fmt.Sprintf("it asks for the scheduler %q, which is not Berth's: this is what berth-scheduler would do", name)
	}
}

// explainBound compares the CPUs of a bound pod with those that it would get now.
func (c *Cluster) explainBound(x *Explanation, d *demand) {
	n := c.node(x.Node)
	switch {
	case n == nil:
		x.Notes = append(x.Notes, "its node is not in the cluster any more")
		return
	case !d.mayPin:
		return
	case n.machine == nil && d.pinning.Wanted:
		x.Notes = append(x.Notes, n.closed.detail)
		return
	}
	annotation := d.pod.Annotations[v1alpha1.AnnotationPlacement]
	placed := placement.Believed(annotation)
	held := placement.HeldAs(n.machine, d.pinning, placed)
	switch {
	case held.CPUs().IsEmpty() && !d.pinning.Wanted:
		return
	case held.CPUs().IsEmpty():
		x.Notes = append(x.Notes, missingPlacement(annotation, held.Unknown()))
		return
	}
	x.Containers = containersOf(placed, n.machine.Topology())
	x.LeftEmpty = leftEmpty(n.machine, &held)
	if held.Unknown() > 0 {
		x.Notes = append(x.Notes, fmt.Sprintf("a part of its placement is not believed: %s as given out", counting(held.Unknown())))
	}
	if placed.Topology != n.hash {
		x.Notes = append(x.Notes, fmt.Sprintf("placed for the topology %s; the node is %s now", placed.Topology, n.hash))
	}
	c.compareNow(x, d, n, &held)
}

// compareNow compares what a pod holds with what it would get if it came now, and says what is far from its CPUs.
func (c *Cluster) compareNow(x *Explanation, d *demand, n *node, held *placement.Held) {
	t := n.machine.Topology()
	if !d.pinning.Wanted {
		x.Notes = append(x.Notes, "it does not ask for CPUs any more, and keeps those it has until it ends")
		x.Why = append(compare(t, held.CPUs(), held.CPUs()), heldMemory(t, d, x.Containers, nil)...)
		return
	}
	if n.closed != nil {
		x.Notes = append(x.Notes, "no other pod can be pinned there now: "+n.closed.detail)
	}
	without := c.without(n, d)
	best, far := held.CPUs(), 0
	now, no := placement.Decide(&c.scratch, without.state(), &without.occupancy, &d.ask)
	if no.OK() {
		best, far = now.Answer.CPUs, now.Answer.Vector.FarDevices
	} else {
		x.Notes = append(x.Notes, "if it came now the node would refuse it: "+Detail(without.state(), &without.occupancy, no))
	}
	if best != held.CPUs() {
		x.Better = best.String()
	}
	x.Why = compare(t, held.CPUs(), best)
	var would []Container
	here, no := placement.Confirm(&c.scratch, without.state(), &without.occupancy, &d.ask, d.wants(x.Containers))
	if no.OK() && here.Answer.CPUs == held.CPUs() {
		if value := here.Answer.Vector.FarDevices; value > 0 {
			x.Why = append(x.Why, against("farDevices", "kinds of devices that its NUMA nodes do not have in full beside other pods", value, far))
		}
		would = containersOf(here.Annotation(&d.ask, n.hash), t)
	}
	x.Why = append(x.Why, heldMemory(t, d, x.Containers, would)...)
}

// wants returns the CPUs of containers, one set for each Want of the pod.
func (d *demand) wants(containers []Container) []cpuset.Set {
	var each []cpuset.Set
	for _, want := range d.pinning.Pinned[:len(d.ask.Request.Wants)] {
		var cpus cpuset.Set
		if c, found := containerOf(containers, want.Name); found {
			cpus, _ = cpuset.Parse(c.CPUs) // valid: checked when read
		}
		each = append(each, cpus)
	}
	return each
}

func missingPlacement(annotation string, unknown int) string {
	if unknown == 0 {
		return "bound without a placement that can be believed; it asks for more CPUs than the node could ever give, and counts with its request only"
	}
	if annotation == "" {
		return fmt.Sprintf("bound without a placement: %s as given out until the node's agent says which", counting(unknown))
	}
	_, problems := v1alpha1.DecodePlacement(annotation)
	if len(problems) > 0 {
		return fmt.Sprintf("its placement cannot be read: %v", problems)
	}
	return fmt.Sprintf("its placement is not believed (CPUs that do not exist, or not as many as the limit): %s as given out", counting(unknown))
}

// without returns the node as if the pod had never come.
func (c *Cluster) without(n *node, gone *demand) *node {
	bare := &node{name: n.name, object: n.object, hash: n.hash, machine: n.machine, policy: n.policy, allocatable: n.allocatable}
	bare.occupancy.AddGiven(n.given)
	for _, d := range c.all {
		if d != gone && !d.pod.Preset && d.pod.Spec.NodeName == n.name {
			bare.take(d, d.pod.Annotations[v1alpha1.AnnotationPlacement])
		}
	}
	return bare
}

// compare compares well-known figures: how many NUMA nodes and L3 domains the CPUs are in, and how many cores are held
// only partly.
func compare(t *topology.Topology, has, best cpuset.Set) []Reason {
	reasons := []Reason{}
	for _, term := range []struct {
		name, text string
		count      func(cpuset.Set) int
	}{
		{"numaNodes", "NUMA nodes", func(s cpuset.Set) int { return t.NodesOf(s).Size() }},
		{"l3s", "L3 domains", func(s cpuset.Set) int { return len(t.L3sOf(s)) }},
		{"split", "cores held partly", func(s cpuset.Set) int { return len(t.Partly(s)) }},
	} {
		value, least := term.count(has), term.count(best)
		reasons = append(reasons, against(term.name, term.text, value, least))
	}
	return reasons
}

// against is a Reason that compares a figure of a bound pod with that of a new placement.
func against(term, what string, value, best int) Reason {
	text := fmt.Sprintf("%s: %d; a new placement would have %d", what, value, best)
	if value == best {
		text = fmt.Sprintf("%s: %d, as a new placement would have", what, value)
	}
	return Reason{Term: term, Value: value, Best: best, Text: text}
}
