package agent

import (
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/capability/burst"
)

// State is the state of a workload.
type State = capability.State

const (
	StateActive  = burst.StateActive
	StateOff     = burst.StateOff
	StateNoLimit = burst.StateNoLimit
	StatePending = burst.StatePending
	StateDrift   = burst.StateDrift
)
