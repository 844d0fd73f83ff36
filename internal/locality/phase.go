package locality

import (
	"errors"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
)

// Outcome is how a pass ended.
type Outcome string

const (
	// Completed says: it was walked to the end, or is at its target. Single processes that
	// exited meanwhile do not change that.
	Completed Outcome = "Completed"
	// Skipped says: there was nothing to do.
	Skipped Outcome = "Skipped"
	// Failed says: it stopped early, because of room, rights, or a foreign cpuset.mems.
	Failed Outcome = "Failed"
)

// Result is how a pass over one container ended.
type Result struct {
	Container string
	Outcome   Outcome
	// Err is why it was skipped, or failed.
	Err error
	// From are the nodes on which pages were, To the local ones.
	From, To cpuset.Set
	// Exited are the ids of processes that ended before their pages could be moved.
	Exited []int
}

// Summary is a pass over the containers of a pod.
type Summary struct {
	Results []Result
	// Ratio is that of the containers together, RestPages what is not local, in base pages.
	Ratio     int
	RestPages int64
}

// Outcome is Failed if one of them is, else Completed if one is, else Skipped.
func (s Summary) Outcome() Outcome {
	switch {
	case s.count(Failed) > 0:
		return Failed
	case s.count(Completed) > 0:
		return Completed
	}
	return Skipped
}

// Reason is the reason of its event.
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

// Phase is that of the pod after it: closed where no container has a local node.
func (s Summary) Phase() v1alpha1.MemoryLocalityPhase {
	if s.noTarget() {
		return v1alpha1.MemoryLocalityClosed
	}
	return v1alpha1.MemoryLocalityPhaseCompleted
}

// Reported is what the last event about a pod said.
type Reported struct {
	// Text is that of the policy.
	Text    string  `json:"policy"`
	Outcome Outcome `json:"result"`
	Ratio   int     `json:"ratio"`
}

// Differs says whether an event is due: the policy or the outcome is another one, or the ratio
// changed by more than ten points.
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

// noTarget says that no container has a local node.
func (s Summary) noTarget() bool {
	for _, r := range s.Results {
		if r.Outcome != Skipped || !errors.Is(r.Err, ErrNoTarget) {
			return false
		}
	}
	return true
}
