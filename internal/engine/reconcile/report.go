package reconcile

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// State is the progress of a group towards its desired settings.
type State string

const (
	// StateApplied means that the group has all desired values, and they are in effect.
	StateApplied State = "applied"
	// StatePending means that the group does not exist, or is not set up yet.
	StatePending State = "pending"
	// StateFailed means that a value could not be written or is not in effect.
	StateFailed State = "failed"
	// StateConflict means that another program writes the group, and Berth leaves it to that program.
	StateConflict State = "conflict"
)

// Status is the state of one group at the last check.
type Status struct {
	// Group is the group's path. Owner is the owner of its desired CPUs, or of its first other setting.
	Group string
	Owner plan.Owner
	// State is the progress of the group, Reason why there is no more.
	State  State
	Reason string
	// CPUs and Mems are in effect. They are empty if nothing is desired or known.
	CPUs, Mems cpuset.Set
}

// Event is a fact that people must learn once.
type Event struct {
	// Group and Workload identify the subject.
	Group, Workload string
	// Reason is HostDrift, CPUPinFailed or IsolationLimited, Text one sentence.
	Reason, Text string
}

// Report says what a pass found and did.
type Report struct {
	// Groups are the groups with desired settings, by path.
	Groups []Status
	// Others are the desired settings of targets that are no files of a group, by target. Their Group is the target.
	Others []Status
	// Events are the new events since the last report.
	Events []Event
	// Writes counts the written values, Restored the restored values.
	Writes, Restored int
	// Limits says which side effects of writes last on this host, "" while none are known.
	Limits string
	// Errors are the errors that belong to no group: of the journal, or of a restoration.
	Errors []error
}

func (r *Report) fail(err error) { r.Errors = append(r.Errors, err) }

// Of returns what the pass found of a group, if it saw the group.
func (r *Report) Of(group string) (at Status, found bool) {
	i, found := slices.BinarySearchFunc(r.Groups, group, func(s Status, path string) int { return strings.Compare(s.Group, path) })
	if !found {
		return Status{}, false
	}
	return r.Groups[i], true
}

// CPUs returns the CPUs in effect in a group that has all desired values, and the empty set for other groups.
func (r *Report) CPUs(group string) cpuset.Set {
	if at, found := r.Of(group); found && at.State == StateApplied {
		return at.CPUs
	}
	return cpuset.Set{}
}
