package schedule

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/berth-project/berth/api/v1alpha1"
)

// memory limits and requests memory, and with huge huge pages too.
func memory(amount string, huge bool) option {
	return func(p *v1.Pod) {
		list := v1.ResourceList{v1.ResourceMemory: resource.MustParse(amount)}
		if huge {
			list[v1.ResourceHugePagesPrefix+"2Mi"] = resource.MustParse("64Mi")
		}
		r := &p.Spec.Containers[0].Resources
		if cpu, found := r.Requests[v1.ResourceCPU]; found {
			list[v1.ResourceCPU] = cpu
		}
		r.Requests, r.Limits = list, list
	}
}

// Memory is bound where it is known to fit beside what all pods of the node request:
// ordinary ones, and one that is on its way to the node.
func TestMemoryBesideOrdinaryPods(t *testing.T) {
	mems := func(c *cluster, pod *v1.Pod) string {
		return placementOf(t, c, pod).Containers["app"].Mems
	}
	inCluster(t, `{"staleAfterSeconds":0}`, func(t *testing.T, c *cluster) {
		c.node("n1")
		huge, small := c.pod("huge", 2, memory("1Gi", true)), c.pod("small", 2, memory("10Gi", false))
		c.placed(huge)
		if got := mems(c, huge); got != "0-1" {
			t.Errorf("a pod with huge pages may use NUMA nodes %s", got)
		}
		c.placed(small)
		if got := mems(c, small); got != "0" {
			t.Errorf("a pod that fits is bound to %s", got)
		}
		ordinary := c.ordinary("ordinary", "1")
		c.update(ordinary, func(p *v1.Pod) {
			p.Spec.Containers[0].Resources.Requests[v1.ResourceMemory] = resource.MustParse("100Gi")
		})
		c.reserve(c.filter(c.get(ordinary))) // assumed, not bound
		late := c.pod("late", 2, memory("10Gi", false))
		c.placed(late)
		if got := mems(c, late); got != "0-1" {
			t.Errorf("a pod beside one that may fill its node is bound to %s", got)
		}
	})
}

func placementOf(t *testing.T, c *cluster, pod *v1.Pod) v1alpha1.Placement {
	t.Helper()
	placed, problems := v1alpha1.DecodePlacement(c.get(pod).Annotations[v1alpha1.AnnotationPlacement])
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return placed
}
