package simulate

import (
	"context"
	"fmt"
	"maps"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// verdict is Berth's answer for a pod on a node.
type verdict struct {
	decision placement.Decision
	score    int64
	refusal  *refusal
}

// choice is the node chosen for a pod.
type choice struct {
	node    *node
	verdict verdict
	equals  int
}

// Run places every waiting pod, one after the other, and reports. It may be called once. When ctx ends, Run returns the
// error of ctx.
func (c *Cluster) Run(ctx context.Context) (Report, error) {
	r := Report{
		Placements: []Placement{}, Pending: []Pending{}, Nodes: []Node{}, NotSimulated: append([]Gap{}, c.gaps...),
		Ignored: append([]Ignored{}, c.ignored...), Notes: append([]string{}, c.notes...),
	}
	equals, seen := 0, alreadySeen{}
	for i, d := range c.pending {
		if err := ctx.Err(); err != nil {
			return Report{}, fmt.Errorf("place %s: %w", d.name(), err)
		}
		c.tell("decided", i, len(c.pending), leastPods)
		if gates := d.pod.Spec.SchedulingGates; len(gates) > 0 && !d.pod.Preset {
			r.Pending, c.left = append(r.Pending, gated(d)), append(c.left, d)
			continue
		}
		best, refused := c.choose(d)
		if best.node == nil {
			r.Pending, c.left = append(r.Pending, seen.report(d, refused)), append(c.left, d)
			continue
		}
		placed := best.commit(d)
		c.replies.changed = append(c.replies.changed, best.node)
		equals += min(placed.Equals, 1)
		r.Placements = append(r.Placements, placed)
	}
	if err := c.planRepacks(ctx, r.Pending); err != nil {
		return Report{}, err
	}
	for _, n := range c.nodes {
		r.Nodes = append(r.Nodes, n.report())
		r.Fragmentation.Before = r.Fragmentation.Before.Plus(n.before)
		r.Fragmentation.After = r.Fragmentation.After.Plus(n.fragmentation())
	}
	r.NotSimulated = append(r.NotSimulated, chosen([...]int{c.manyNodes(), equals, c.preempting(r.Pending)})...)
	return r, nil
}

// alreadySeen is the last pod of each workload that was reported with the nodes' reasons.
type alreadySeen map[string]Pending

// report returns the report of a pod that waits. It omits the nodes' reasons if they were the same for an earlier pod of
// the workload: a hundred replicas times a thousand nodes would add nothing.
func (a alreadySeen) report(d *demand, refused []NodeReason) Pending {
	p, found := a[d.pod.From]
	if d.pod.From == "" || !found || !sameReasons(p.Nodes, refused) {
		p = pendingOf(d, refused)
		a[d.pod.From] = p
		return p
	}
	p.SameAs = p.Namespace + "/" + p.Pod
	p.Pod, p.Nodes = d.pod.name(), []NodeReason{}
	return p
}

// sameReasons compares the reasons of nodes. Replicas often share them.
func sameReasons(a, b []NodeReason) bool {
	if len(a) == len(b) && len(a) > 0 && &a[0] == &b[0] {
		return true
	}
	return slices.EqualFunc(a, b, func(x, y NodeReason) bool { return x.Node == y.Node && x.Detail == y.Detail })
}

// choose returns the node with the greatest score, or the node that the pod names.
func (c *Cluster) choose(d *demand) (choice, []NodeReason) {
	if d.pod.Spec.NodeName == "" {
		return c.replies.best(c, d)
	}
	return c.bestOf(c.candidates(d), d)
}

// candidates returns all nodes, or the node that the pod names.
func (c *Cluster) candidates(d *demand) []*node {
	if d.pod.Spec.NodeName == "" {
		return c.nodes
	}
	if n := c.node(d.pod.Spec.NodeName); n != nil {
		return []*node{n}
	}
	return nil
}

// bestOf asks each node, and also returns why nodes refuse.
func (c *Cluster) bestOf(nodes []*node, d *demand) (choice, []NodeReason) {
	var best choice
	var refused []NodeReason
	for _, n := range nodes {
		v := n.ask(&c.scratch, d)
		switch {
		case v.refusal != nil:
			refused = append(refused, NodeReason{Node: n.name, Reasons: v.refusal.reasons, Detail: v.refusal.detail})
		case best.node == nil || v.score > best.verdict.score:
			best = choice{node: n, verdict: v}
		case v.score == best.verdict.score:
			best.equals++
		}
	}
	return best, refused
}

// ask returns whether the node accepts the pod, and the score.
func (n *node) ask(s *alloc.Scratch, d *demand) verdict {
	if r := n.fits(d); r != nil {
		return verdict{refusal: r}
	}
	if !d.pinning.Wanted {
		return verdict{refusal: n.roomFor(d)}
	}
	if n.closed != nil {
		return verdict{refusal: n.closed}
	}
	v, known := n.memo[d.ask.Shape]
	if !known {
		v = n.decide(s, d)
		n.memo[d.ask.Shape] = v
	}
	return v
}

// decide runs Berth's decision, as the scheduler does.
func (n *node) decide(s *alloc.Scratch, d *demand) verdict {
	decision, no := placement.Decide(s, n.state(), &n.occupancy, &d.ask)
	if !no.OK() {
		if never := placement.Never(s, n.state(), &d.ask); !never.OK() {
			return verdict{refusal: refuse(never.Reason(), "%s (whatever runs there)", Detail(n.state(), &placement.Occupancy{}, never))}
		}
		return verdict{refusal: refuse(no.Reason(), "%s", Detail(n.state(), &n.occupancy, no))}
	}
	return verdict{decision: decision, score: placement.Score(&decision)}
}

// roomFor returns a refusal if an ordinary pod would not leave the pinned pods their CPUs.
func (n *node) roomFor(d *demand) *refusal {
	state := n.state()
	no := state.Room(&n.occupancy, d.milli)
	if no.OK() {
		return nil
	}
	return refuse(no.Reason(), "%s", no.Detail())
}

func (n *node) state() placement.Node {
	state := placement.Node{
		Machine: n.machine, Policy: n.policy, AllocatableMilli: n.allocatable.milli,
		RequestedMilli: n.milli, RequestedMemory: n.requested.ScheduledMemory, RequestedHuge: n.requested.ScheduledHuge,
	}
	if n.machine != nil {
		state.RequestedDevices = placement.CountDevices(n.machine.Topology(), n.requested.Devices)
	}
	return state
}

// take adds a pod to the node. annotation is its placement, if any.
func (n *node) take(d *demand, annotation string) {
	n.milli += d.milli
	n.requested.Add(d.requests, 1)
	n.pods++
	clear(n.memo)
	if !d.mayPin {
		return
	}
	held := placement.Counted(n.machine, d.pinning, placement.Believed(annotation))
	if cpus := held.CPUs(); !cpus.IsEmpty() {
		n.held = append(n.held, Held{Pod: d.name(), CPUs: cpus, LeftEmpty: leftEmpty(n.machine, &held)})
	}
	n.occupancy.Add(n.machine, &held)
	n.pinned = append(n.pinned, pinned{d, held})
	if held.Unknown() > 0 {
		n.note("%s has %s for itself, and it is not known which", d.name(), countOf(held.Unknown()))
	}
}

// commit gives the pod to the node and returns its placement. The node remembers the pod by its annotation, as a
// scheduler does after a restart.
func (c *choice) commit(d *demand) Placement {
	p := Placement{
		Namespace: d.pod.Namespace, Pod: d.pod.name(), From: d.pod.From, Node: c.node.name, Equals: c.equals,
		Containers: []Container{}, Why: []Reason{}, Warnings: append([]string{}, d.warnings...),
	}
	if !d.pinning.Wanted {
		c.node.take(d, "")
		return p
	}
	decided := c.verdict.decision.Annotation(&d.ask, c.node.hash)
	p.Containers = containersOf(decided, c.node.machine.Topology())
	answer := &c.verdict.decision.Answer
	p.Why = append(Reasons(c.node.state(), &d.ask, answer), memoryReasons(c.node.machine.Topology(), d, p.Containers)...)
	p.LeftEmpty = LeftEmpty(c.node.machine, answer)
	p.annotation = decided.Encode()
	c.node.take(d, p.annotation)
	return p
}

// containersOf returns the containers of a placement, with the domains of their CPUs.
func containersOf(p v1alpha1.Placement, t *topology.Topology) []Container {
	all := []Container{}
	for _, name := range slices.Sorted(maps.Keys(p.Containers)) {
		part := p.Containers[name]
		cpus, _ := cpuset.Parse(part.CPUs) // valid: made by Decision, or checked when read
		all = append(all, Container{
			Name: name, CPUs: part.CPUs, Mems: part.Mems, Policy: string(part.Policy), Domain: part.Domain,
			NUMANodes: slices.AppendSeq([]int{}, t.NodesOf(cpus).All()), L3: t.L3sOf(cpus),
		})
	}
	return all
}

func pendingOf(d *demand, refused []NodeReason) Pending {
	p := Pending{
		Namespace: d.pod.Namespace, Pod: d.pod.name(), From: d.pod.From, Reason: Grouped(refused),
		Nodes: slices.Clip(refused), Warnings: append([]string{}, d.warnings...),
	}
	if refused == nil {
		p.Nodes = []NodeReason{}
	}
	switch {
	case d.pod.Spec.NodeName != "" && len(refused) == 0:
		p.Reason = fmt.Sprintf("its nodeName %q is no node of the input", d.pod.Spec.NodeName)
	case d.pod.Spec.NodeName != "":
		p.Reason = fmt.Sprintf("its nodeName is %s, which refuses it: %s", d.pod.Spec.NodeName, refused[0].Detail)
	}
	return p
}

// gated returns the report of a pod with a scheduling gate: no node is asked.
func gated(d *demand) Pending {
	p := pendingOf(d, nil)
	p.Reason = fmt.Sprintf("held back by the scheduling gate %q", d.pod.Spec.SchedulingGates[0].Name)
	return p
}

// fragmentation considers only the CPUs that a pod of a cluster may get.
func (n *node) fragmentation() placement.Fragmentation {
	if n.machine == nil {
		return placement.Fragmentation{}
	}
	machine := placement.Node{Machine: n.machine}
	return machine.Fragmentation(&n.occupancy)
}

func (n *node) report() Node {
	out := Node{
		Name: n.name, Topology: n.hash, Pods: n.pods, Held: append([]Held{}, n.held...), Notes: append([]string{}, n.notes...),
		Fragmentation: Change{Before: n.before, After: n.fragmentation()},
	}
	if n.machine != nil {
		out.machine = n.machine.Topology()
		out.Pinnable = n.machine.Pinnable().String()
	}
	return out
}

// manyNodes returns the number of nodes if kube-scheduler would not check all of them, else 0.
func (c *Cluster) manyNodes() int {
	const all = 100
	if len(c.nodes) <= all {
		return 0
	}
	return len(c.nodes)
}

// preempting counts the pending pods with a higher priority than a placed pod.
func (c *Cluster) preempting(pending []Pending) int {
	waits := map[string]bool{}
	for _, p := range pending {
		waits[p.Namespace+"/"+p.Pod] = true
	}
	lowest, count := priorityOfLowest(c.pending, waits), 0
	for _, d := range c.pending {
		never := d.pod.Spec.PreemptionPolicy != nil && *d.pod.Spec.PreemptionPolicy == v1.PreemptNever
		if waits[d.name()] && !never && priority(d.pod.Pod) > lowest {
			count++
		}
	}
	return count
}

func priorityOfLowest(all []*demand, waits map[string]bool) int32 {
	lowest := int32(1<<31 - 1)
	for _, d := range all {
		if !waits[d.name()] {
			lowest = min(lowest, priority(d.pod.Pod))
		}
	}
	return lowest
}
