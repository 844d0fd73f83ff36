package kubepod_test

import (
	"fmt"
	"testing"

	"github.com/berth-project/berth/internal/intent/kubepod"
	"github.com/berth-project/berth/internal/intent/workload"
)

// TestHeldResize checks that the limits of the running containers apply while the kubelet defers a resize, and those of
// the spec otherwise.
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

// TestNothingHeld checks that a status without limits, or with the spec's limits, has no effect.
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

// TestResizing checks that the kubelet may write to the groups of a pod while the running state differs from the spec,
// except for a deferred resize.
func TestResizing(t *testing.T) {
	running := func(resources string) string {
		return `
spec: {containers: [{name: app, resources: {requests: {cpu: "1"}, limits: {cpu: "2"}}}]}
status:
  containerStatuses: [{name: app, state: {running: {}}, resources: ` + resources + `}]
`
	}
	const same = `{requests: {cpu: "1"}, limits: {cpu: "2"}}`
	for _, test := range []struct {
		name, status string
		want         bool
	}{
		{"settled", running(same), false},
		{"no status", running(`null`), false},
		{"another request", running(`{requests: {cpu: "500m"}, limits: {cpu: "2"}}`), true},
		{"another limit", running(`{requests: {cpu: "1"}, limits: {cpu: "3"}}`), true},
		{"does not run", `
spec: {containers: [{name: app, resources: {requests: {cpu: "1"}}}]}
status: {containerStatuses: [{name: app, resources: {}}]}
`, false},
		{"memory", `
spec: {containers: [{name: app, resources: {requests: {memory: 1Gi}}}]}
status: {containerStatuses: [{name: app, state: {running: {}}, resources: {requests: {memory: 2Gi}}}]}
`, false},
		{"in progress", running(same) + "  conditions: [{type: PodResizeInProgress}]\n", true},
		{"failed, tried again", running(same) + "  conditions: [{type: PodResizeInProgress, reason: Error}]\n", true},
		{"deferred", running(`{requests: {cpu: "500m"}}`) + "  conditions: [{type: PodResizePending, reason: Deferred}]\n", false},
		{"infeasible", running(`{requests: {cpu: "500m"}}`) + "  conditions: [{type: PodResizePending, reason: Infeasible}]\n", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			if got := kubepod.Of(pod(t, test.status)).Resizing; got != test.want {
				t.Errorf("resizing %v, want %v", got, test.want)
			}
		})
	}
}

// TestResizingWithoutQuota checks a limit without a quota, for which the kubelet keeps reporting the old value after a
// resize. The observed generation shows that the resize is complete.
func TestResizingWithoutQuota(t *testing.T) {
	for name, test := range map[string]struct {
		seen       int
		conditions string
		want       bool
		sure       bool // certain enough to close the node
	}{
		"not seen":                          {1, "", true, true},
		"under way":                         {2, "{type: PodResizeInProgress}", true, true},
		"through":                           {2, "", false, false},
		"put off":                           {2, "{type: PodResizePending, reason: Deferred}", false, false},
		"never says":                        {0, "", true, false},
		"says only that it carries one out": {0, "{type: PodResizeInProgress}", true, true},
	} {
		t.Run(name, func(t *testing.T) {
			p := pod(t, fmt.Sprintf(`
metadata: {generation: 2, annotations: {cpuset-scheduler: "true"}}
spec: {containers: [{name: a, resources: {requests: {cpu: 1}, limits: {cpu: 2}}}]}
status: {observedGeneration: %d, conditions: [%s], containerStatuses: [{name: a, state: {running: {}}, resources: {requests: {cpu: 1}, limits: {cpu: 4}}}]}
`, test.seen, test.conditions))
			if got := kubepod.Of(p); got.Resizing != test.want {
				t.Errorf("resizing %v, want %v", got.Resizing, test.want)
			} else if pin, _ := workload.PinningOf(got); !test.want && test.conditions == "" && pin.Pinned[0].Other != 0 {
				t.Errorf("asks for %+v", pin.Pinned[0])
			} else if pin.Change.Resizing != test.sure {
				t.Errorf("its CPUs may change: %v, want %v", pin.Change.Resizing, test.sure)
			}
		})
	}
}

// TestLimitInForce checks that a limit is in effect when the kubelet reports it for the running container, and has no
// resize to carry out.
func TestLimitInForce(t *testing.T) {
	const same, other = `{requests: {cpu: "1"}, limits: {cpu: "2"}}`, `{requests: {cpu: "1"}, limits: {cpu: "3"}}`
	for _, test := range []struct {
		name             string
		generation, seen int
		resources, conds string
		want             bool
	}{
		{"carried out", 2, 2, same, "", true},
		{"by a kubelet that says no generation", 2, 0, same, "", true},
		{"not seen yet", 3, 2, same, "", false},
		{"under way", 2, 2, same, "{type: PodResizeInProgress}", false},
		{"put off", 2, 2, same, "{type: PodResizePending, reason: Deferred}", false},
		{"another one stands", 2, 2, other, "", false},
		{"another one stands, no generation", 2, 0, other, "", false},
		{"no status", 2, 2, "null", "", false},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := kubepod.Of(pod(t, fmt.Sprintf(`
metadata: {generation: %d}
spec: {containers: [{name: app, resources: {requests: {cpu: "1"}, limits: {cpu: "2"}}}]}
status: {observedGeneration: %d, conditions: [%s], containerStatuses: [{name: app, state: {running: {}}, resources: %s}]}
`, test.generation, test.seen, test.conds, test.resources)))
			if got := p.Containers[0].CPUInForce; got != test.want {
				t.Errorf("in force %v, want %v", got, test.want)
			}
		})
	}
}
