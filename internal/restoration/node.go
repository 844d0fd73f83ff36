package restoration

import (
	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-project/berth/api/v1alpha1"
)

// isAgents says that a Lease is an agent's, and none by which replicas elect their leader: only the
// latter count their transitions.
func isAgents(l *coordination.LeaseSpec) bool { return l.LeaseTransitions == nil }

// nodeOf is how far a node is; absent is why its agent does not live, "" where it does.
func nodeOf(t *v1alpha1.NodeTopology, absent string) Node {
	if absent != "" {
		return Node{t.Name, Absent, absent + ": berth rollback on the node puts back what it left"}
	}
	one := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionPinnable)
	if one == nil {
		return Node{t.Name, Waiting, "its agent has published no condition"}
	}
	if one.Reason == v1alpha1.PinnableRestored {
		return Node{t.Name, Restored, one.Message}
	}
	return Node{t.Name, Waiting, one.Reason + ": " + one.Message}
}
