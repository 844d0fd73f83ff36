package agent

import (
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/quota"
)

// State is where a workload stands, as the tests read it.
type State = capability.State

// The states of workloads.
const (
	StateActive  = quota.StateActive
	StateOff     = quota.StateOff
	StateNoLimit = quota.StateNoLimit
	StatePending = quota.StatePending
	StateDrift   = quota.StateDrift
)
