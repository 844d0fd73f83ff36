package tenants

import (
	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// Resident is a workload of a host without Kubernetes, or a group that makes room
// for others.
type Resident struct {
	Workload workload.Workload
	// Group is the one it was found in.
	Group string
}

// soleContainer is the name of the one container that a workload counts as.
const soleContainer = "workload"

// Residents replaces the workloads of a host without Kubernetes: each is a pod with
// one container, which runs. pool are the groups that only make room.
func (t *Tenants) Residents(all []Resident, pool []string) {
	pods := make([]arbiter.Pod, 0, len(all))
	containers := make([]arbiter.Container, 0, len(all)+len(pool))
	t.containers = make(map[string]*container, len(all)+len(pool))
	for _, r := range all {
		pods = append(pods, arbiter.Pod{Pod: podOf(r.Workload)})
		containers = append(containers, t.keep(&container{
			Container: arbiter.Container{ID: r.Group, PodUID: uidOf(r.Workload), Name: soleContainer, Phase: arbiter.Running},
			group:     r.Group,
		}).Container)
	}
	for _, group := range pool {
		if t.containers[group] != nil {
			continue // it is a workload as well
		}
		containers = append(containers, t.keep(&container{
			Container: arbiter.Container{ID: group, Phase: arbiter.Running}, group: group,
		}).Container)
	}
	t.arbiter.SetPods(pods)
	t.arbiter.SetContainers(containers)
}

// uidOf names a workload as a pod. No pod of Kubernetes has such a UID.
func uidOf(w workload.Workload) string { return "workload/" + w.Name }

func podOf(w workload.Workload) workload.Pod {
	request, limit := thousandths(w.Request), thousandths(w.Limit)
	if request == 0 {
		request = limit
	}
	return workload.Pod{
		Name: w.Name, UID: uidOf(w), Labels: w.Labels, Annotations: w.Annotations, Scheduled: request,
		Containers: []workload.Container{{Name: soleContainer, CPURequest: request, CPULimit: limit}},
	}
}

func thousandths(c unit.CPUs) int64 { return int64(c*1000 + 0.5) }
