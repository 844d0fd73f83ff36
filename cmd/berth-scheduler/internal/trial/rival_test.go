package trial

import (
	"fmt"
	"slices"
	"strconv"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"

	"github.com/berth-project/berth/api/v1alpha1"
)

// rival binds a pod beside a pod between Reserve and Bind, as another scheduler that writes placements would: it knows
// the stored pods, and none of the reservations. Its pod needs one CPU, and as much memory of one NUMA node as is left,
// of the kind that the other pod needs. The scheduler sees it at once: before that, Bind cannot know of it.
func (q *quickStorm) rival() {
	if len(q.flying) == 0 {
		return
	}
	other := q.flying[q.rand.IntN(len(q.flying))].assumed
	node, kind := other.Spec.NodeName, v1.ResourceMemory
	if _, huge := other.Spec.Containers[0].Resources.Limits["hugepages-1Gi"]; huge {
		kind = "hugepages-1Gi"
	}
	defer func(audited int) { q.nodes.bindings = audited }(q.nodes.bindings)
	q.made++
	for try := range int64(20) {
		p := q.rivalPod(node, kind, (5-try/4)*gi)
		if q.nodes.checkNode(node, append(q.on(node), p)) == nil {
			q.nodes.sized[p.Name] = sizes(p)
			q.add(p)
			q.rivals++
			q.foreign[node] = q.version
			return
		}
	}
}

// rivalPod returns a bound pod with a random CPU of a random NUMA node of a node.
func (q *quickStorm) rivalPod(node string, kind v1.ResourceName, bytes int64) *v1.Pod {
	n := q.nodes.nodes[node]
	numa := q.rand.IntN(len(n.numa))
	cpus := slices.Collect(n.numa[numa].Intersect(n.pinnable).All())
	p := pinned(fmt.Sprintf("rival%d", q.made), 1, 1)
	p.UID, p.Generation, p.Spec.SchedulerName, p.Spec.NodeName = types.UID(p.Name), 1, "rival", node
	amount, r := *resource.NewQuantity(bytes, resource.BinarySI), p.Spec.Containers[0].Resources
	r.Requests[kind], r.Limits[kind] = amount, amount
	p.Annotations[v1alpha1.AnnotationPlacement] = v1alpha1.Placement{
		V: v1alpha1.PlacementVersion, Topology: n.hash,
		Containers: map[string]v1alpha1.ContainerPlacement{"app": {
			CPUs: strconv.Itoa(cpus[q.rand.IntN(len(cpus))]), Mems: strconv.Itoa(n.memory.ids[numa]), Policy: v1alpha1.PlacementExclusive,
		}},
	}.Encode()
	p.Status.Conditions = []v1.PodCondition{{Type: v1.PodScheduled, Status: v1.ConditionTrue}}
	return p
}
