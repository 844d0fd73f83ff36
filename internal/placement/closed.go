package placement

// Why a node takes no pod that asks for CPUs of its own, whatever runs there.
// The scheduler and the simulation say it in the same words, which name no node,
// so that kube-scheduler can count nodes that say the same.
const (
	TextNoTopology = "no NodeTopology"
	TextLies       = "NodeTopology is not valid"
	TextStale      = "Berth agent not heard of"
)

// TextUnpinnable is the same for a node whose agent pins nothing, for the reason
// of its condition Pinnable.
func TextUnpinnable(reason string) string { return "node not pinnable (" + reason + ")" }
