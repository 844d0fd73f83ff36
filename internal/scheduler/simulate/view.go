package simulate

import (
	"cmp"
	"fmt"
	"slices"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/agent/view"
)

// View returns an overview of a live cluster: what is free on each node, and why each pending pod waits. Each pod is
// judged as in Explain, as if only this pod came now. View must be called before Run.
func (c *Cluster) View() *view.Cluster {
	v := &view.Cluster{Format: view.Format, At: c.agents.At, Nodes: []view.Node{}, Pending: []view.Pending{}, Problems: []string{}}
	for _, n := range c.nodes {
		v.Nodes = append(v.Nodes, n.view())
	}
	slices.SortFunc(v.Nodes, view.MoreRoom)
	for _, d := range c.pending {
		if d.pod.Spec.NodeName != "" {
			continue
		}
		if v.PendingTotal++; v.PendingTotal <= view.MostPending {
			v.Pending = append(v.Pending, c.viewOf(d))
		}
	}
	if c.agents.Unknown != "" {
		v.Problems = append(v.Problems, "not known whether Berth's agents run: "+c.agents.Unknown)
	}
	return v
}

// view returns the overview of a node.
func (n *node) view() view.Node {
	v := view.Node{Name: n.name, Pinned: len(n.held), Pods: n.pods, Notes: []string{}}
	if n.machine != nil {
		pinnable := n.machine.Pinnable()
		v.CPUs, v.L3 = pinnable.Size(), len(n.machine.Topology().L3sOf(pinnable))
		free := n.fragmentation()
		v.FreeCPUs, v.FreeL3, v.Fragmentation = free.FreeCPUs, free.FreeL3, free.Percent
	}
	if n.object.Spec.Unschedulable {
		v.Notes = append(v.Notes, "cordoned")
	}
	for _, taint := range n.object.Spec.Taints {
		if taint.Effect != v1.TaintEffectPreferNoSchedule && taint.Key != v1.TaintNodeUnschedulable {
			v.Notes = append(v.Notes, "tainted: "+taint.ToString())
		}
	}
	if n.closed != nil {
		v.Obstacle = n.closed.detail // its notes repeat it
		return v
	}
	v.Notes = append(v.Notes, n.notes...)
	return v
}

// viewOf returns the overview of a pending pod.
func (c *Cluster) viewOf(d *demand) view.Pending {
	v := view.Pending{
		Namespace: d.pod.Namespace, Pod: d.pod.name(), Scheduler: cmp.Or(d.pod.Spec.SchedulerName, v1.DefaultSchedulerName),
		Since: d.pod.CreationTimestamp.Time, Condition: scheduledCondition(d.pod.Pod),
	}
	for _, want := range d.ask.Request.Wants {
		v.CPUs += want.CPUs
	}
	if len(d.pod.Spec.SchedulingGates) > 0 {
		v.Why = gated(d).Reason
		return v
	}
	best, refused := c.replies.best(c, d)
	switch {
	case best.node == nil:
		v.Why = Grouped(refused)
		return v
	case IsBerth(v.Scheduler):
		v.Why = best.node.name + " would take it now"
	default:
		v.Why = fmt.Sprintf("berth-scheduler would put it on %s now, but it asks for the scheduler %s", best.node.name, v.Scheduler)
	}
	v.Node = best.node.name
	return v
}
