package place_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
)

// TestUnrequested checks which exclusive CPUs the requests of pods do not show: the CPUs that schedulers and
// autoscalers overlook.
func TestUnrequested(t *testing.T) {
	below := func(request int64) workload.Container {
		c := app("app", 4)
		c.CPURequest = request
		return c
	}
	alone := func(p workload.Pod) workload.Pod {
		return with(p, v1alpha1.AnnotationResourceSpec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`)
	}
	earlier := pod("a", 1, below(1000))
	earlier.Init, earlier.Scheduled = []workload.Container{app("init", 8)}, 8000
	beside := workload.Container{Name: "side", Resources: workload.Resources{CPURequest: 500}}
	guessed := pod("a", 1, below(1000))
	guessed.Provisional = true
	stopped := func(n *place.Node) {
		n.Pods.Observe(observed.Container{ID: "a/app", PodUID: "a", Name: "app", Phase: observed.Stopped})
	}
	tests := []struct {
		name string
		pods []workload.Pod
		then func(n *place.Node)
		want float64
	}{
		{"no pod", nil, nil, 0},
		{"an ordinary pod", []workload.Pod{plain("a", 1, below(1000))}, nil, 0},
		{"a request below the limit", []workload.Pod{pod("a", 1, below(1000))}, nil, 3},
		{"no request", []workload.Pod{pod("a", 1, below(0))}, nil, 4},
		{"a request as large as the limit", []workload.Pod{pod("a", 1, below(4000))}, nil, 0},
		{"a sibling that stays empty", []workload.Pod{alone(pod("a", 1, app("app", 1)))}, nil, 1},
		{"the request of another container covers nothing", []workload.Pod{pod("a", 1, below(1000), beside)}, nil, 3},
		{"the larger request of an init container covers all", []workload.Pod{earlier}, nil, 0},
		{"the sum of two pods", []workload.Pod{pod("a", 1, below(1000)), pod("b", 2, below(2500))}, nil, 4.5},
		{"requests that are not known", []workload.Pod{guessed}, nil, 0},
		{"a crashed container", []workload.Pod{pod("a", 1, below(1000))}, stopped, 3},
		{"a pod that ended", []workload.Pod{pod("a", 1, below(1000))}, func(n *place.Node) {
			over := pod("a", 1, below(1000))
			over.Ended = true
			n.Pods.Put(over)
			stopped(n)
		}, 0},
		{"a resize of the request alone", []workload.Pod{pod("a", 1, below(1000))}, func(n *place.Node) {
			more := pod("a", 1, below(3500))
			more.Changed = true
			n.Pods.Put(more)
		}, 0.5},
		{"nothing is pinned on the node", []workload.Pod{pod("a", 1, below(1000))}, func(n *place.Node) {
			facts := two().facts(t)
			facts.Pinnable = false
			n.SetFacts(facts)
		}, 0},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := place.New(two().facts(t))
			for _, p := range test.pods {
				n.Pods.Put(p)
				start(t, n, p.UID, "app")
			}
			if test.then != nil {
				test.then(n)
			}
			if got := n.Unrequested(); got != test.want {
				t.Errorf("%v CPUs, want %v", got, test.want)
			}
		})
	}
}
