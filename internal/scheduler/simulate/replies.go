package simulate

import (
	"math"

	"k8s.io/apimachinery/pkg/api/equality"
)

// replies are the nodes' answers to the previous pod. Replicas ask the same of all nodes, and the answer changes only
// on a node that has since got a pod: only such a node is asked again.
type replies struct {
	to      *demand // nil for none
	scores  []int64 // by node; refusing for a refusal
	changed []*node // nodes that have got a pod since
	refused []NodeReason
}

const refusing = math.MinInt64

// best returns the first node with the greatest score, or why each node refuses.
func (r *replies) best(c *Cluster, d *demand) (choice, []NodeReason) {
	again := r.changed
	if !d.asksLike(r.to) {
		r.to, r.scores, again = d, make([]int64, len(c.nodes)), c.nodes
	}
	for _, n := range again {
		v := n.ask(&c.scratch, d)
		if r.scores[n.index] = v.score; v.refusal != nil {
			r.scores[n.index] = refusing
		}
	}
	if r.changed = r.changed[:0]; len(again) > 0 {
		r.refused = nil
	}
	at, equals := 0, 0
	for i, score := range r.scores {
		switch {
		case score > r.scores[at]:
			at, equals = i, 0
		case score == r.scores[at] && i > at:
			equals++
		}
	}
	if len(r.scores) > 0 && r.scores[at] != refusing {
		return choice{node: c.nodes[at], verdict: c.nodes[at].ask(&c.scratch, d), equals: equals}, nil
	}
	if r.refused == nil {
		_, r.refused = c.bestOf(c.nodes, d)
	}
	return choice{}, r.refused
}

// asksLike reports whether every node gives both pods the same answer.
func (d *demand) asksLike(o *demand) bool {
	if o == nil || d.milli != o.milli || !equality.Semantic.DeepEqual(d.requests, o.requests) || d.pinning.Wanted != o.pinning.Wanted ||
		d.ask.Shape != o.ask.Shape || d.pod.Preset != o.pod.Preset {
		return false
	}
	a, b := &d.pod.Spec, &o.pod.Spec
	return equality.Semantic.DeepEqual(a.Tolerations, b.Tolerations) && equality.Semantic.DeepEqual(a.NodeSelector, b.NodeSelector) &&
		equality.Semantic.DeepEqual(a.Affinity, b.Affinity)
}
