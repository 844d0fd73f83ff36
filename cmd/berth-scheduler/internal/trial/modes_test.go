package trial

import (
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	featuregatetesting "k8s.io/component-base/featuregate/testing"
	"k8s.io/kubernetes/pkg/features"

	"github.com/berth-project/berth/cmd/berth-scheduler/internal/memapi"
)

// In the mode Patch the placement is on the pod before DefaultBinder binds it,
// and nothing is patched on pods that did not opt in.
func TestPatchMode(t *testing.T) {
	c := newCluster(t)
	c.config = modePatch
	c.addMachine("n0", small())
	c.begin()
	var before string
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		if pod == "a" {
			before = c.pod("a").Annotations["berth.dev/placement"]
		}
		return memapi.None
	})
	c.create(pinned("a", 1, 4), ordinary("b", 1000, 4000))
	c.expect("a", "n0", "0-3", "0-1")
	if got := c.pod("a").Annotations["berth.dev/placement"]; before != got {
		t.Fatalf("before its binding the pod said %q, after it %q", before, got)
	}
	if got := c.bound("b").Annotations; len(got) != 0 {
		t.Fatalf("the ordinary pod got %v", got)
	}
	c.audit()
}

// A pod that is bound keeps its placement, also where the scheduler does not
// know that it is bound and tries again.
func TestPatchModeNeverTouchesABoundPod(t *testing.T) {
	c := newCluster(t)
	c.config = modePatch
	c.addMachine("n0", small())
	c.begin()
	c.create(pinned("first", 1, 4))
	c.bound("first")
	calls := 0
	c.api.FailBinds(func(_, pod string) memapi.Fault {
		calls++
		if calls > 1 {
			return memapi.None
		}
		c.remove("first") // other CPUs are better for the second attempt
		time.Sleep(100 * time.Millisecond)
		c.api.Mute(podPath, true)
		time.AfterFunc(time.Second, func() { c.api.Mute(podPath, false) })
		return memapi.LostAfter
	})
	c.create(pinned("a", 1, 4))
	c.expect("a", "n0", "4-7", "0-1")
	time.Sleep(500 * time.Millisecond)
	c.expect("a", "n0", "4-7", "0-1")
	c.audit()
}

// With the scheduler's asynchronous API calls the binding takes another way,
// with the same result.
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

// A gated pod holds nothing, and gets its CPUs when the gate opens.
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
