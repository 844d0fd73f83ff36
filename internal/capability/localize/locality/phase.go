package locality

import (
	"errors"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Outcome is the end of a pass.
type Outcome string

const (
	// Completed means that the pass walked the whole group, or reached its target. Processes that exited during the
	// pass do not change that.
	Completed Outcome = "Completed"
	// Skipped means that there was nothing to do.
	Skipped Outcome = "Skipped"
	// Failed means that the pass stopped early, because of room, rights, or a foreign cpuset.mems.
	Failed Outcome = "Failed"
)

// Result is the result of a pass over one container.
type Result struct {
	Container string
	Outcome   Outcome
	// Err is why the container was skipped, or failed.
	Err error
	// From are the nodes on which pages were, To the local nodes.
	From, To cpuset.Set
	// Exited are the ids of processes that ended before their pages could be moved.
	Exited []int
}

// Summary is the result of a pass over the containers of a pod.
type Summary struct {
	Results []Result
	// Ratio is the ratio of all containers together, RestPages the remote memory in base pages.
	Ratio     int
	RestPages int64
}

// Outcome returns Failed if a container failed, else Completed if a container completed, else Skipped.
func (s Summary) Outcome() Outcome {
	switch {
	case s.count(Failed) > 0:
		return Failed
	case s.count(Completed) > 0:
		return Completed
	}
	return Skipped
}

// Reason returns the reason of the event.
func (s Summary) Reason() string {
	switch s.Outcome() {
	case Completed:
		return v1alpha1.EventMemoryLocalityCompleted
	case Failed:
		return v1alpha1.EventMemoryLocalityFailed
	case Skipped:
	}
	return v1alpha1.EventMemoryLocalitySkipped
}

// Phase returns the pod's phase after the pass: closed if no container has a local node.
func (s Summary) Phase() v1alpha1.MemoryLocalityPhase {
	if s.noTarget() {
		return v1alpha1.MemoryLocalityClosed
	}
	return v1alpha1.MemoryLocalityPhaseCompleted
}

// Reported is the content of the last event about a pod.
type Reported struct {
	// Text is the policy's Text.
	Text    string  `json:"policy"`
	Outcome Outcome `json:"result"`
	Ratio   int     `json:"ratio"`
}

// Differs reports whether an event is due: the policy or the outcome changed, or the ratio changed by more than ten
// points.
func (r Reported) Differs(last Reported) bool {
	const enough = 10
	return r.Text != last.Text || r.Outcome != last.Outcome || r.Ratio > last.Ratio+enough || r.Ratio < last.Ratio-enough
}

func (s Summary) count(o Outcome) int {
	n := 0
	for _, r := range s.Results {
		if r.Outcome == o {
			n++
		}
	}
	return n
}

func (s Summary) noTarget() bool {
	for _, r := range s.Results {
		if r.Outcome != Skipped || !errors.Is(r.Err, ErrNoTarget) {
			return false
		}
	}
	return true
}
