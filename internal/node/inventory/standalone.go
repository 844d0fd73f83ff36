package inventory

import (
	"slices"
	"strings"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// soleContainer is the name of the only container of a workload.
const soleContainer = "workload"

// SetStandalone replaces the workloads of a host without Kubernetes, with the groups they were found in. Each is a pod
// with one running container. pool are the groups that only shrink to the shared pool.
func (inv *Inventory) SetStandalone(all []workload.Workload, pool []string) {
	inv.standalone.files, inv.standalone.pool = all, pool
	setStandalone(inv, inv.containers.limited(all))
}

// FollowLimits updates limits that no workload file names after administrators changed them.
func (inv *Inventory) FollowLimits() {
	for i := range inv.standalone.files {
		if w := &inv.standalone.files[i]; ofGroup(w) && inv.workloads[i].Limit != inv.containers.host.OriginalLimit(w.Cgroup) {
			setStandalone(inv, inv.containers.limited(inv.standalone.files))
			return
		}
	}
}

// ofGroup reports whether a workload has the limit of its group: it asks for exclusive CPUs, and its file names no
// limit.
func ofGroup(w *workload.Workload) bool {
	return w.Limit == 0 && workload.MayPin(w.Labels, w.Annotations)
}

// limited returns workloads with their valid limits.
func (cs *Containers) limited(all []workload.Workload) []workload.Workload {
	all = slices.Clone(all)
	for i := range all {
		if w := &all[i]; ofGroup(w) {
			w.Limit = cs.host.OriginalLimit(w.Cgroup)
		}
	}
	return all
}

// setStandalone stores workloads with their valid limits.
func setStandalone(inv *Inventory, all []workload.Workload) {
	pool := inv.standalone.pool
	pods := make([]workload.Pod, 0, len(all))
	containers := make([]observed.Container, 0, len(all)+len(pool))
	cs := &inv.containers
	cs.byID = make(map[string]*container, len(all)+len(pool))
	for _, w := range all {
		pods = append(pods, podOf(w))
		c := cs.keep(&container{
			Container: observed.Container{ID: w.Cgroup, PodUID: uidOf(w), Name: soleContainer, Phase: observed.Running},
			group:     w.Cgroup,
		})
		c.Pinned = c.Pinned && mayKeep(w)
		containers = append(containers, c.Container)
	}
	for _, group := range pool {
		if cs.byID[group] != nil {
			continue // it is also a workload
		}
		containers = append(containers, cs.keep(&container{
			Container: observed.Container{ID: group, Phase: observed.Running}, group: group,
		}).Container)
	}
	inv.changes.add(Change{What: WorkloadsListed, Listed: pods})
	inv.changes.add(Change{What: ContainersListed, Containers: containers})
	inv.workloads, inv.running.made = all, false
	if !inv.started {
		inv.started = true
		inv.ownerChanged()
	}
}

// mayKeep reports whether a workload may retain its exclusive CPUs. It is false once its file asks for none. A mistake
// in the file does not remove them.
func mayKeep(w workload.Workload) bool {
	pin, problems := workload.PinningOf(podOf(w))
	return pin.Wanted || len(problems) > 0
}

// uidOf returns the UID of a workload as a pod. A pod asks for CPUs once, at its creation; a workload whose file
// changes its request becomes another pod.
func uidOf(w workload.Workload) string {
	return workload.UIDPrefix + strings.Join([]string{
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

// standalone is the counterpart of pods on a host without Kubernetes.
type standalone struct {
	// files are the workloads as in their files.
	files []workload.Workload
	// pool are the groups that only shrink to the shared pool.
	pool []string
}

func thousandths(c unit.CPUs) int64 { return int64(c*1000 + 0.5) }
