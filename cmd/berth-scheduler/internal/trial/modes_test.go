package trial

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"
)

// TestAsyncAPICalls checks the binding with the feature gate SchedulerAsyncAPICalls. The binding uses another code path
// in the scheduler, with the same result.
func TestAsyncAPICalls(t *testing.T) {
	featuregatetesting.SetFeatureGateDuringTest(t, utilfeature.DefaultFeatureGate, features.SchedulerAsyncAPICalls, true)
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("a", 1, 4))
	c.expect("a", "n0", "0-3", "0-1")
	c.create(pinned("b", 4, 18), ordinary("c", 1000, 0))
	c.bound("b")
	c.bound("c")
	c.audit()
}

// TestGatedPod checks that a pod with a scheduling gate reserves no CPUs, and gets its CPUs when the gate opens.
func TestGatedPod(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.begin()
	gated := pinned("gated", 1, 22)
	gated.Spec.SchedulingGates = []v1.PodSchedulingGate{{Name: "example.com/wait"}}
	c.create(gated, pinned("a", 1, 22))
	c.bound("a")
	c.remove("a")
	open := c.pod("gated")
	open.Spec.SchedulingGates = nil
	c.update(open)
	c.bound("gated")
	c.audit()
}
