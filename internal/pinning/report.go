package pinning

import (
	"github.com/berth-project/berth/internal/cpuset"
)

// State is how far a wish has come.
type State string

const (
	// Applied says that the group has all that is wished, and the kernel does it.
	Applied State = "applied"
	// Pending says that the group is not there, or not set up yet.
	Pending State = "pending"
	// Failed says that something could not be written or is not in effect.
	Failed State = "failed"
	// Drift says that somebody else writes the group, to whom it is left.
	Drift State = "drift"
)

// Status is one group as the last look found it.
type Status struct {
	// Wish is what is wished.
	Wish Wish
	// State is how far it has come, Reason why not further.
	State  State
	Reason string
	// CPUs and Mems are in effect. They are empty where they are not wished or not
	// known.
	CPUs, Mems cpuset.Set
}

// News is something to tell people once.
type News struct {
	// Group and Workload say whom it is about.
	Group, Workload string
	// Reason is HostDrift or CPUPinFailed, Text one sentence.
	Reason, Text string
}

// Report says what a pass found and did.
type Report struct {
	// Groups are those with a wish, by path.
	Groups []Status
	// News are what is new since the last report.
	News []News
	// Writes counts the values written, Restored those put back.
	Writes, Restored int
	// Errors are what went wrong beside the groups: the journal, or a value that
	// could not be put back.
	Errors []error
}
