package capability

import (
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Recorded is a Capability that knows the use of workloads.
type Recorded interface {
	// Record adds the moment of each workload, and that of the node under the empty name, from the last readings: it
	// reads nothing from the host.
	Record(add func(Moment))
}

// Moment is the quota and use of a workload at one moment.
type Moment struct {
	Quota
	// Used is the use since the group was made, or the node started, until At, which is monotonic.
	Used unit.CPUTime
	At   time.Duration
}
