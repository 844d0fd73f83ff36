package schedule

import (
	"time"

	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

// liveness is what is known about the agent of a node.
type liveness uint8

const (
	// unheard is an agent without a Lease, or an agent that stopped renewing its Lease.
	unheard liveness = iota
	// unread is an agent whose Lease the plugin could not read yet.
	unread
	// alive is an agent that renewed its Lease lately.
	alive
)

// access decides whether pods may be pinned on a node.
type access struct {
	// listed reports whether the node has a NodeTopology.
	listed bool
	// lies reports whether the NodeTopology cannot be true.
	lies bool
	// barred is why the agent pins nothing here, "" if it does pin.
	barred string
	agent  liveness
	// renewed is the renewal time in the Lease, by the node's clock. heard is when it last changed, by the clock of the
	// Leases.
	renewed, heard time.Time
	// status refuses pinned pods; nil if the node is open to them.
	status *fwk.Status
}

// empty reports whether neither a topology nor a Lease is known.
func (a *access) empty() bool { return !a.listed && a.heard.IsZero() }

// known reports whether the node has a NodeTopology that can be true.
func (a *access) known() bool { return a.listed && !a.lies }

// isOpen reports whether the node can take pods with exclusive CPUs. n may be nil, for a node of which nothing is known.
func (n *node) isOpen() bool { return n != nil && n.shut.Load() == nil }

// closed returns the status that refuses all pinned pods, whatever runs on the node, nil if there is none. The caller
// holds mu.
func (n *node) closed() (*fwk.Status, refusal) {
	if n.access.status == nil && !n.access.known() {
		n.settle()
	}
	return n.access.status, refusedByTopology
}

// settle updates access.status and reports whether the node has just been opened for pinned pods. The caller holds mu.
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
		// An empty node would refuse the pod too.
		n.access.status = fwk.NewStatus(fwk.UnschedulableAndUnresolvable, text)
		n.shut.Store(&result{status: n.access.status, reason: refusedByTopology})
	}
	return false
}
