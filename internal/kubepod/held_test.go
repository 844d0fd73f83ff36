package kubepod_test

import (
	"testing"

	"github.com/berth-project/berth/internal/kubepod"
)

// The limits that count while the kubelet puts a resize off are those that the
// containers run with; in every other case those of the spec.
func TestHeldResize(t *testing.T) {
	const spec = `
spec: {resources: {limits: {cpu: "8"}}, containers: [{name: app, resources: {limits: {cpu: "4"}}}]}
status:
  resources: {limits: {cpu: "6"}}
  containerStatuses: [{name: app, resources: {limits: {cpu: "2"}}}]
`
	for _, test := range []struct {
		name, conditions string
		app, pod         int64
	}{
		{"no condition: the kubelet is about to write", ``, 0, 0},
		{"in progress", `{type: PodResizeInProgress}`, 0, 0},
		{"deferred", `{type: PodResizePending, reason: Deferred}`, 2000, 6000},
		{"infeasible", `{type: PodResizePending, reason: Infeasible}`, 2000, 6000},
		{"failing", `{type: PodResizeInProgress, reason: Error}`, 2000, 6000},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := kubepod.Of(pod(t, spec+"  conditions: ["+test.conditions+"]\n"))
			if got := p.Containers[0].CPUHeld; got != test.app {
				t.Errorf("the container is held at %d, want %d", got, test.app)
			}
			if p.CPUHeld != test.pod {
				t.Errorf("the pod is held at %d, want %d", p.CPUHeld, test.pod)
			}
			if p.Containers[0].CPULimit != 4000 || p.CPULimit != 8000 {
				t.Errorf("the spec's limits are %d and %d", p.Containers[0].CPULimit, p.CPULimit)
			}
		})
	}
}

// A status without limits, or with those of the spec, holds nothing.
func TestNothingHeld(t *testing.T) {
	for _, status := range []string{`{name: app}`, `{name: app, resources: {}}`, `{name: app, resources: {limits: {cpu: "4"}}}`} {
		p := kubepod.Of(pod(t, `
spec: {containers: [{name: app, resources: {limits: {cpu: "4"}}}]}
status: {conditions: [{type: PodResizePending, reason: Deferred}], containerStatuses: [`+status+`]}
`))
		if p.Containers[0].CPUHeld != 0 || p.CPUHeld != 0 {
			t.Errorf("%s: held at %d, the pod at %d", status, p.Containers[0].CPUHeld, p.CPUHeld)
		}
	}
}
