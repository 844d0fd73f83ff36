package schedule

import (
	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/node/apiclient"
)

// reportInvalid emits the event about a pod that is scheduled like any other, because its keys cannot be read.
func (p *Plugin) reportInvalid(pod *v1.Pod, problems v1alpha1.FieldErrors) {
	if p.reportPolicy(pod, "no CPUs are pinned for this pod: "+problems.Line()) {
		p.core.meters.invalid()
	}
}

// reportPolicy emits the event about the keys of a pod once, and reports whether it did.
func (p *Plugin) reportPolicy(pod *v1.Pod, text string) bool {
	text = apiclient.Note(text)
	if !p.core.invalid.first(pod, text) {
		return false
	}
	p.handle.EventRecorder().Eventf(pod, nil, v1.EventTypeWarning, v1alpha1.EventInvalidPolicy, "Scheduling", "%s", text)
	return true
}
