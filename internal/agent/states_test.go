package agent

import (
	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/capability"
)

// State is where a workload stands, as the tests read it.
type State = capability.State

// The states of workloads.
const (
	StateActive  = burst.StateActive
	StateOff     = burst.StateOff
	StateNoLimit = burst.StateNoLimit
	StatePending = burst.StatePending
	StateDrift   = burst.StateDrift
)
