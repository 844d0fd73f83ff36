package simulate

import "k8s.io/apimachinery/pkg/api/equality"

// replies are the nodes' answers to the previous pod. Replicas ask the same of all nodes, and the answer changes only
// on a node that has since got a pod: only such a node is asked again.
type replies struct {
	to      *demand // nil for none
	scores  ranking
	changed []*node // nodes that have got a pod since
	refused []NodeReason
}

// best returns the first node with the greatest score, or why each node refuses.
func (r *replies) best(c *Cluster, d *demand) (choice, []NodeReason) {
	again := r.changed
	if !d.asksLike(r.to) {
		r.to, r.scores, again = d, newRanking(len(c.nodes)), c.nodes
	}
	for _, n := range again {
		v := n.ask(&c.scratch, d)
		if v.refusal != nil {
			v.score = refusing
		}
		r.scores.set(n.index, v.score)
	}
	if r.changed = r.changed[:0]; len(again) > 0 {
		r.refused = nil
	}
	if leads := r.scores.leader(); leads.score != refusing {
		n := c.nodes[leads.node]
		return choice{node: n, verdict: n.ask(&c.scratch, d), equals: leads.nodes - 1}, nil
	}
	if r.refused == nil {
		_, r.refused = c.bestOf(c.nodes, d)
	}
	return choice{}, r.refused
}

// asksLike reports whether every node gives both pods the same answer.
func (d *demand) asksLike(o *demand) bool {
	if o != nil && d.request == o.request {
		return d.pod.Preset == o.pod.Preset
	}
	if o == nil || d.milli != o.milli || !equality.Semantic.DeepEqual(d.requests, o.requests) || d.pinning.Wanted != o.pinning.Wanted ||
		d.ask.Shape != o.ask.Shape || d.pod.Preset != o.pod.Preset {
		return false
	}
	a, b := &d.pod.Spec, &o.pod.Spec
	return equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations) && equality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector) &&
		equality.Semantic.DeepEqual(a.Affinity, b.Affinity)
}
