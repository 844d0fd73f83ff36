package drift

import (
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// keyNode is the checkpoint key of the last comparison's result.
const keyNode = "hostProfile"

// metricDrift is the number of settings that the host does not have.
const metricDrift = "host_profile_drift"

// metricInForce is 0 while the host has lost the whole committed profile.
const metricInForce = "host_profile_in_force"

// Describe implements capability.Capability.
func (*Watch) Describe() capability.Info {
	return capability.Info{
		Name: "tune", Summary: "compares the host with the profile that is committed",
		Page: "docs/tune.md",
		Metrics: []capability.Metric{
			{Name: metricDrift, Help: "Settings of the committed host profile that the host does not have, as far as the agent sees them; none while the profile is not in force.", Labels: []string{"profile"}},
			{Name: metricInForce, Help: "1 while the committed host profile is in force; 0 after a boot or an undone apply ended it, until it is applied again.", Labels: []string{"profile"}},
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
	if w.found == nil {
		return
	}
	labels, inForce := []string{w.found.Profile}, 0.0
	if !w.found.Ended {
		inForce = 1
		add(capability.Sample{Metric: metricDrift, Value: float64(len(w.found.Drift)), Labels: labels})
	}
	add(capability.Sample{Metric: metricInForce, Value: inForce, Labels: labels})
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
	case found.Ended:
		line = found.over()
	case len(found.Drift) > 0:
		line = found.text(found.Drift)
	case len(found.Unseen) > 0:
		line += ", as far as the agent's pod shows it"
	}
	if len(found.Unseen) > 0 {
		line += "; not seen from the pod: " + found.unseen()
	}
	if len(found.Waiting) > 0 {
		line += "; not set, since the unit does not run: " + strings.Join(found.Waiting, ", ")
	}
	return capability.NodeView{Sections: capability.Sections{keyNode: found}, Lines: []string{line}}, nil
}

// Workload implements capability.Reader: a profile belongs to the host.
func (reader) Workload(capability.Reported) (capability.WorkloadView, error) {
	return capability.WorkloadView{}, nil
}
