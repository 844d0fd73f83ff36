package inventory

import (
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// earlyPod returns the runtime's data of a pod. The data suffices to check a placement from the scheduler: its number
// of CPUs must be the limit of the container. A container that the placement does not name gets no CPUs: it may be an
// init container. Without a placement every container is assumed to be an app container. known is the pod from
// containers that were made before, nil for none.
func earlyPod(known *cluster.Pod, e nri.Event) *cluster.Pod {
	p := &cluster.Pod{Static: cluster.FromFile(e.Pod.Annotations), Pod: workload.Pod{
		Namespace: e.Pod.Namespace, Name: e.Pod.Name, UID: e.Pod.UID, Provisional: true,
		Labels: maps.Clone(e.Pod.Labels), Annotations: v1alpha1.OwnAnnotations(e.Pod.Annotations),
	}}
	if known != nil {
		p.Pod = known.Pod
	} else {
		p.Containers = containersOf(p.Annotations[v1alpha1.AnnotationPlacement])
	}
	c := workload.Container{Name: e.Container.Name}
	if r := e.Container.Resources; r.Quota > 0 && r.Period > 0 {
		c.CPULimit = r.Quota * 1000 / r.Period
	}
	p.Containers = slices.Clone(p.Containers)
	i := slices.IndexFunc(p.Containers, func(o workload.Container) bool { return o.Name == c.Name })
	switch {
	case i >= 0:
		p.Containers[i] = c
	case len(containersOf(p.Annotations[v1alpha1.AnnotationPlacement])) == 0:
		p.Containers = append(p.Containers, c)
	}
	return p
}

// containersOf returns the containers that a placement names, by name, each with its expected limit, so that no other
// pod gets its CPUs before it is made. If containers share CPUs, the limit is the pod's, which the runtime does not
// report: then they have no limit, and stay in the shared pool until the pod is known.
func containersOf(placement string) []workload.Container {
	placed, problems := v1alpha1.DecodePlacement(placement)
	if placement == "" || len(problems) > 0 {
		return nil
	}
	var all []workload.Container
	var used cpuset.Set
	shared := false
	for _, name := range slices.Sorted(maps.Keys(placed.Containers)) {
		cpus, _ := cpuset.Parse(placed.Containers[name].CPUs) // its form was checked
		shared = shared || cpus.Intersects(used)
		used = used.Union(cpus)
		all = append(all, workload.Container{Name: name, Resources: workload.Resources{CPULimit: int64(cpus.Size()) * 1000}})
	}
	for i := range all {
		if shared {
			all[i].CPULimit = 0
		}
	}
	return all
}
