package capability

import (
	"time"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/plan"
)

// Decider is a Capability that wants something of the host. Once a second, and whenever
// something happened, each decides in the order of the list: by what was observed, and by
// what those before it handed on.
type Decider interface {
	// Decide says what is desired now. It writes to n what those after it have to know.
	Decide(n *Node) Decision
}

// Node is what a round of decisions goes by.
type Node struct {
	// Now is monotonic.
	Now time.Duration
	// Online are the CPUs that are online, Isolated those on which the kernel balances
	// nothing (isolcpus=).
	Online, Isolated cpuset.Set
	// Exclusive are the CPUs that workloads have for themselves, Unlimited the groups that
	// run without a quota because of that: their quotas have no other owner.
	Exclusive cpuset.Set
	Unlimited map[string]bool
}

// Event is something that people are to know: it is logged, and in a cluster an Event of
// the pod, or of the node.
type Event struct {
	// PodUID is empty for an event about the node.
	PodUID string
	// Reason is one word, Text one or more sentences.
	Reason, Text string
	// Warning marks a problem, unlike a normal event.
	Warning bool
}

// Decision is what one capability wants.
type Decision struct {
	// Settings are all that it desires; what is not among them any more goes back to its
	// original.
	Settings []plan.Desired
	// Events are what people are to know, once.
	Events []Event
	// Held says that too little is known for that: nothing is written, and nothing put
	// back, until it is known.
	Held bool
}
