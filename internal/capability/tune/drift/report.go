package drift

import (
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// keyNode is the checkpoint key of the last comparison's result.
const keyNode = "hostProfile"

// metricDrift is the number of settings that the host does not have.
const metricDrift = "host_profile_drift"

// Describe implements capability.Capability.
func (*Watch) Describe() capability.Info {
	return capability.Info{
		Name: "tune", Summary: "compares the host with the profile that is committed",
		Page: "docs/tune.md",
		Metrics: []capability.Metric{
			{Name: metricDrift, Help: "Settings of the committed host profile that the host does not have.", Labels: []string{"profile"}},
		},
		Reader: reader{},
	}
}

// Outcome implements capability.Capability.
func (w *Watch) Outcome(time.Time) capability.Outcome {
	w.mu.Lock()
	defer w.mu.Unlock()
	var out capability.Outcome
	if w.found != nil {
		out.Node = capability.Sections{keyNode: w.found}
	}
	if w.broken != nil {
		out.Problems = []string{"host profile: " + w.broken.Error()}
	}
	return out
}

// Recall implements capability.Capability: drift that was reported is not reported again.
func (w *Watch) Recall(saved capability.Sections) error {
	return saved.Decode(keyNode, &w.found)
}

// Measure implements capability.Measured.
func (w *Watch) Measure(add func(capability.Sample)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.found != nil && !w.found.Ended {
		add(capability.Sample{Metric: metricDrift, Value: float64(len(w.found.Drift)), Labels: []string{w.found.Profile}})
	}
}

type reader struct{}

// Node implements capability.Reader.
func (reader) Node(r capability.Reported) (capability.NodeView, error) {
	var found *Report
	if !r.Alive { // berth tune verify compares now
		return capability.NodeView{}, nil
	}
	if err := r.Node.Decode(keyNode, &found); err != nil || found == nil {
		return capability.NodeView{}, err
	}
	line := fmt.Sprintf("host profile %s: the host has it", found.Profile)
	switch {
	case found.Undone:
		line = fmt.Sprintf("host profile %s: committed, and not in force since an apply of it was undone: berth tune apply --committed", found.Profile)
	case found.Ended:
		line = fmt.Sprintf("host profile %s: the last boot ended it: berth tune apply --committed", found.Profile)
	case len(found.Drift) > 0:
		line = found.text(found.Drift)
	}
	return capability.NodeView{Sections: capability.Sections{keyNode: found}, Lines: []string{line}}, nil
}

// Workload implements capability.Reader: a profile belongs to the host.
func (reader) Workload(capability.Reported) (capability.WorkloadView, error) {
	return capability.WorkloadView{}, nil
}
