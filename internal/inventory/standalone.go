package inventory

import (
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// soleContainer is the name of the one container that a workload counts as.
const soleContainer = "workload"

// SetStandalone replaces the workloads of a host without Kubernetes, in the groups that
// they were found in: each is a pod with one container, which runs. pool are the groups that only shrink to the shared pool.
func (inv *Inventory) SetStandalone(all []workload.Workload, pool []string) {
	pods := make([]workload.Pod, 0, len(all))
	containers := make([]place.Container, 0, len(all)+len(pool))
	cs := &inv.containers
	cs.byID = make(map[string]*container, len(all)+len(pool))
	for _, w := range all {
		pods = append(pods, podOf(w))
		c := cs.keep(&container{
			Container: place.Container{ID: w.Cgroup, PodUID: uidOf(w), Name: soleContainer, Phase: place.Running},
			group:     w.Cgroup,
		})
		// The CPUs that it still has do not count once its file asks for none.
		c.Pinned = c.Pinned && workload.MayPin(w.Labels, w.Annotations)
		containers = append(containers, c.Container)
	}
	for _, group := range pool {
		if cs.byID[group] != nil {
			continue // it is a workload as well
		}
		containers = append(containers, cs.keep(&container{
			Container: place.Container{ID: group, Phase: place.Running}, group: group,
		}).Container)
	}
	inv.node.SetPods(pods)
	inv.node.SetContainers(containers)
	inv.standalone.resize(inv.node, all)
	inv.workloads, inv.running.made = all, false
	if !inv.started {
		inv.started = true
		inv.setFacts()
	}
}

// uidPrefix begins the UIDs of workloads. No pod of Kubernetes has such a one.
const uidPrefix = "workload/"

// uidOf names a workload as a pod. A pod asks for CPUs once, when it is created; a
// workload whose file asks for something else from now on is another one.
func uidOf(w workload.Workload) string {
	return uidPrefix + strings.Join([]string{
		w.Name, w.Class,
		w.Annotations[v1alpha1.AnnotationCPUSetScheduler], w.Annotations[v1alpha1.AnnotationCPUPolicy],
		w.Annotations[v1alpha1.AnnotationResourceSpec], w.Annotations[v1alpha1.AnnotationNUMATopologySpec],
	}, "/")
}

func podOf(w workload.Workload) workload.Pod {
	request, limit := thousandths(w.Request), thousandths(w.Limit)
	if request == 0 {
		request = limit
	}
	return workload.Pod{
		Name: w.Name, UID: uidOf(w), Labels: w.Labels, Annotations: w.Annotations, Scheduled: request, Offline: w.Offline,
		Containers: []workload.Container{{Name: soleContainer, Resources: workload.Resources{CPURequest: request, CPULimit: limit}}},
	}
}

// standalone are the limits of the workloads of a host without Kubernetes, by UID.
type standalone map[string]unit.CPUs

// resize passes on new limits of workloads: each keeps the CPUs it has, as far as that
// goes.
func (s *standalone) resize(node *place.Node, all []workload.Workload) {
	limits := make(standalone, len(all))
	for _, w := range all {
		uid := uidOf(w)
		limits[uid] = w.Limit
		if was, known := (*s)[uid]; known && was != w.Limit {
			// What does not fit becomes an event.
			_, _ = node.Resize(uid)
		}
	}
	*s = limits
}

func thousandths(c unit.CPUs) int64 { return int64(c*1000 + 0.5) }
