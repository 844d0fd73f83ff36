package burst

import "github.com/berth-project/berth/internal/capability"

// State is the state of one workload. A workload is in exactly one state.
type State = capability.State

// The states of a workload.
const (
	// StateActive: the group is sampled and its quota moves.
	StateActive State = "Active"
	// StateOff: the policy is none; nothing is written.
	StateOff = capability.StateOff
	// StateNoLimit: the group has no quota, so there is nothing to burst over.
	StateNoLimit State = "NoLimit"
	// StatePending: something is missing or contradictory; Reason says what.
	StatePending = capability.StatePending
	// StateDrift: another writer owns the value now; Berth leaves it alone.
	StateDrift State = "Drift"
)
