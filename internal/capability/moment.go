package capability

import (
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Recorded is a Capability that knows what workloads use.
type Recorded interface {
	// Record adds the moment of each workload, and that of the node under the empty name, as the
	// last looks found them: it reads nothing of the host.
	Record(add func(Moment))
}

// Moment is what a workload had and used at one moment.
type Moment struct {
	Quota
	// Used counts from when the group was made, or the node started, until At, which is monotonic.
	Used unit.CPUTime
	At   time.Duration
}
