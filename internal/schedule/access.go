package schedule

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/placement"
)

// liveness is what is known about the agent of a node.
type liveness uint8

const (
	// unheard is an agent without a Lease, or one that stopped renewing it.
	unheard liveness = iota
	// unread is an agent whose Lease the plugin could not read yet.
	unread
	// alive is an agent that renewed its Lease lately.
	alive
)

// access says whether pods may be pinned on a node.
type access struct {
	// listed says that there is a NodeTopology.
	listed bool
	// lies says that it cannot be true.
	lies bool
	// barred is why the agent pins nothing here; empty where it does.
	barred string
	agent  liveness
	// renewed is what the Lease says, by the clock of the node; heard is when
	// it last changed, by the clock of the Leases.
	renewed, heard time.Time
	// status refuses pods that are to be pinned, nil where nothing does.
	status *fwk.Status
}

// empty says that neither a topology nor a Lease is known.
func (a *access) empty() bool { return !a.listed && a.heard.IsZero() }

// known says whether there is a NodeTopology that can be true.
func (a *access) known() bool { return a.listed && !a.lies }

// closed returns why no pod can be pinned on the node, whatever runs there, nil
// where some can. The caller holds mu.
func (n *node) closed() (*fwk.Status, refusal) {
	if n.access.status == nil && !n.access.known() {
		n.settle()
	}
	return n.access.status, refusedByTopology
}

// settle works out access.status and says whether the node has just been opened
// for pinned pods. The caller holds mu.
func (n *node) settle() bool {
	before := n.access.status
	text := ""
	switch {
	case n.access.lies:
		text = placement.TextLies
	case !n.access.listed:
		text = placement.TextNoTopology
	case n.access.barred != "":
		text = placement.ReasonUnpinnable(n.access.barred)
	case n.access.agent == unread:
		text = textUnlisted
	case n.access.agent == unheard:
		text = placement.TextStale
	}
	if text == "" {
		n.access.status = nil
		n.shut.Store(nil)
		return before != nil
	}
	if before == nil || before.Message() != text {
		// An empty node would not do either.
		n.access.status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
		n.shut.Store(&result{status: n.access.status, reason: refusedByTopology})
	}
	return false
}
