package assignment_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
)

// While the kubelet defers a resize, burst uses the limits in effect. The requested limits are also known, for when the
// kubelet writes them.
func TestWorkloadsOfAHeldResize(t *testing.T) {
	p := plainPod("held")
	p.Annotations = map[string]string{v1alpha1.AnnotationCPUBurst: `{"policy":"auto"}`}
	p.Containers[0].CPULimit, p.Containers[0].CPUHeld = 4000, 2000
	p.CPULimit, p.CPUHeld = 8000, 6000
	p.Containers[0].CPUInForce = true
	n := open(t)
	n.Take(snapshot(p))
	start(t, n, p)
	all, _ := n.Workloads()
	if len(all) != 2 {
		t.Fatalf("%d workloads, want the pod and its container", len(all))
	}
	for i, want := range []struct{ limit, asked float64 }{{6, 8}, {2, 4}} {
		if w := all[i]; float64(w.Limit) != want.limit || float64(w.Asked) != want.asked {
			t.Errorf("%s: limit %v, asked for %v, want %v and %v", w.Name, w.Limit, w.Asked, want.limit, want.asked)
		}
		if all[i].InForce != (i == 1) {
			t.Errorf("%s: in force %v", all[i].Name, all[i].InForce)
		}
	}
}
