package reconcile

import (
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/plan"
)

// State is how far a group is from what is desired.
type State string

const (
	// StateApplied says that the group has all that is desired, and the kernel does it.
	StateApplied State = "applied"
	// StatePending says that the group is not there, or not set up yet.
	StatePending State = "pending"
	// StateFailed says that something could not be written or is not in effect.
	StateFailed State = "failed"
	// StateConflict says that another writer writes the group, and the group is left to it.
	StateConflict State = "conflict"
)

// Status is one group as the last look found it.
type Status struct {
	// Group is its path, Owner who desires its CPUs, or what else is desired of it.
	Group string
	Owner plan.Owner
	// State is how far it has come, Reason why not further.
	State  State
	Reason string
	// CPUs and Mems are in effect. They are empty where nothing is desired or
	// known.
	CPUs, Mems cpuset.Set
}

// Event is something that people are to know once.
type Event struct {
	// Group and Workload say what it is about.
	Group, Workload string
	// Reason is HostDrift, CPUPinFailed or IsolationLimited, Text one sentence.
	Reason, Text string
}

// Report says what a pass found and did.
type Report struct {
	// Groups are those that something is desired of, by path.
	Groups []Status
	// Others are the desired settings that are no files of a group, by target. Group has
	// the target.
	Others []Status
	// Events are what is new since the last report.
	Events []Event
	// Writes counts the values written, Restored those put back.
	Writes, Restored int
	// Errors are what went wrong beside the groups: the journal, or a value that
	// could not be put back.
	Errors []error
}
