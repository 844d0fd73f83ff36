package schedule

import (
	"context"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
)

// rival creates a bound pod with the CPUs that were decided for the pod of a.
func (c *cluster) rival(name string, a *attempt) *v1.Pod {
	made := a.state.data[reservationKey].(*reservation)
	rival := c.spec(name, made.held.CPUs().Size(), annotated(v1alpha1.AnnotationPlacement, made.annotation))
	rival.Spec.NodeName = "n1"
	return c.create(rival)
}

// overlaps fails unless the metric counts the desired number of overlaps.
func (c *cluster) overlaps(want float64, when string) {
	c.t.Helper()
	registry := prometheus.NewRegistry()
	registry.MustRegister(c.plugin.core.meters.overlaps)
	if got := must(registry.Gather())(c.t)[0].GetMetric()[0].GetCounter().GetValue(); got != want {
		c.t.Errorf("%s: %v overlaps were reported, want %v", when, got, want)
	}
}

// Two pods overlap once both are bound with the same CPUs. A pod that is only reserved does not overlap, because its
// binding is refused.
func TestOverlapOfBoundPodsIsReported(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		pod := c.pod("a", 4)
		a := c.reserve(c.filter(pod))
		rival := c.rival("rival", a)
		c.overlaps(0, "a pod is bound with reserved CPUs")
		if c.finish(a); a.status.Message() != textRace {
			t.Fatalf("Bind: %v", a.status)
		}
		c.placed(pod)
		c.disjoint()
		c.overlaps(0, "the reserved pod went elsewhere")
		c.remove(rival)
	})
}

// An ambiguous bind counts as an overlap once it has gone through.
func TestOverlapOfAmbiguousBindIsReported(t *testing.T) {
	for name, applied := range map[string]bool{"lost": false, "went through late": true} {
		t.Run(name, func(t *testing.T) {
			inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
				c.node("n1")
				var sent *v1.Binding
				c.fault = func(b *v1.Binding) (bool, error) { sent = b; return false, context.DeadlineExceeded }
				pod := c.pod("a", 4)
				a := c.reserve(c.filter(pod))
				a.status = c.plugin.Bind(c.ctx, a.state, a.pod, a.node)
				c.rival("rival", a)
				c.giveUp(a)
				c.settle()
				c.overlaps(0, "a pod is bound with CPUs of a binding that may be lost")
				if applied {
					if err := c.carryOut(sent); err != nil {
						t.Fatal(err)
					}
				}
				c.settle()
				c.overlaps(map[bool]float64{true: 1}[applied], "the binding is settled")
				c.update(pod, func(p *v1.Pod) { p.Labels = map[string]string{"a": "b"} })
				c.overlaps(map[bool]float64{true: 1}[applied], "the pod changed")
			})
		})
	}
}

// The scheduler can learn of the rival after it sent its own binding. Both pods are then bound, and the overlap counts.
func TestOverlapWithBindingUnderWayIsReported(t *testing.T) {
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		a := c.reserve(c.filter(c.pod("a", 4)))
		binding := bindingOf(a.pod, "n1")
		binding.Annotations = map[string]string{v1alpha1.AnnotationPlacement: a.state.data[reservationKey].(*reservation).annotation}
		c.rival("rival", a)
		c.overlaps(0, "the binding is under way")
		if err := c.carryOut(binding); err != nil {
			t.Fatal(err)
		}
		c.settle()
		c.overlaps(1, "both are bound")
	})
}
