package restoration

import (
	"time"

	coordination "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/api/meta"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// isAgents reports whether a Lease belongs to an agent, and not to replicas that elect their leader: only elections
// count transitions.
func isAgents(l *coordination.LeaseSpec) bool { return l.LeaseTransitions == nil }

// nodeOf returns the progress of a node. An agent makes its Lease before it publishes anything, so a node without a
// Lease has no live agent.
func (c *cluster) nodeOf(t *v1alpha1.NodeTopology) Node {
	s, now := c.seen[t.Name], c.options.Now()
	absent := "its agent has no Lease"
	if s != nil {
		absent = s.Absence(now)
	}
	if absent != "" {
		return Node{t.Name, Absent, absent + ": berth rollback on the node puts back what it left"}
	}
	one := meta.FindStatusCondition(t.Status.Conditions, v1alpha1.ConditionPinnable)
	if one == nil {
		return Node{t.Name, Waiting, "its agent has published no condition" + unsure(s, now)}
	}
	if one.Reason == v1alpha1.PinnableRestored {
		return Node{t.Name, Restored, one.Message}
	}
	return Node{t.Name, Waiting, one.Reason + ": " + one.Message + unsure(s, now)}
}

// unsure returns the remark that the agent was not yet seen to renew its Lease, "" if it was.
func unsure(s *apiclient.Sighting, now time.Time) string {
	if s.Renews(now) {
		return ""
	}
	return ", and its Lease did not change yet"
}
