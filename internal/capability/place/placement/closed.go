package placement

// These are the reasons why a node accepts no pod that asks for exclusive CPUs, whatever runs there. The scheduler and
// the simulation give the same reasons. A reason names no node, so that kube-scheduler can count the nodes that share
// it.
const (
	TextNoTopology = "node(s) had no NodeTopology"
	TextLies       = "node(s) had an invalid NodeTopology"
	TextStale      = "node(s) had a Berth agent that did not renew its Lease"
)

// ReasonUnpinnable is the reason for a node whose agent pins nothing, with the reason of its condition Pinnable.
func ReasonUnpinnable(reason string) string { return "node(s) were not pinnable (" + reason + ")" }

// TextUnpinnable is the text for one node, in the event of a pod.
func TextUnpinnable(reason string) string { return "node not pinnable (" + reason + ")" }
