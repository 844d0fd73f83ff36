package tenants

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cluster"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// errExclusive is why a container with CPUs of its own does not burst.
var errExclusive = errors.New("it runs without a quota, on CPUs of its own")

// Workloads returns the groups whose quota, or whose use, is the agent's business,
// by pod and container: those that may burst, offline ones, and those with CPUs of
// their own. Containers that do not run now have no group. Findings are by pod.
func (t *Tenants) Workloads() ([]workload.Workload, map[string]workload.Findings) {
	if t.owner.agent != (Obstacle{}) || t.strategies == nil {
		return nil, nil
	}
	exclusive := map[string]bool{}
	for _, w := range t.arbiter.Wishes() {
		if w.NoQuota {
			exclusive[w.PodUID+"/"+w.Container] = true
		}
	}
	var all []workload.Workload
	findings := map[string]workload.Findings{}
	for _, uid := range slices.Sorted(maps.Keys(t.pods)) {
		p := t.pods[uid]
		if p.Ended {
			continue
		}
		burst, found := t.strategies.Burst(&p.Pod, p.BestEffort)
		if len(found.Refused)+len(found.Warnings) > 0 {
			findings[uid] = found
		}
		all = append(all, t.workloadsOf(p, burst, exclusive)...)
	}
	return all, findings
}

// workloadsOf returns those of one pod.
func (t *Tenants) workloadsOf(p *cluster.Pod, burst workload.Burst, exclusive map[string]bool) []workload.Workload {
	class := t.strategies.Class(&p.Pod, p.BestEffort)
	group := t.groupOfPod(p.UID)
	limited := p.CPULimit > 0
	base := workload.Workload{
		Class: string(class), Offline: class.Offline(), Burst: burst,
		Pod: workload.InPod{UID: p.UID, Group: group, Derived: !limited},
	}
	var all []workload.Workload
	if limited && burst.Wanted() && group != "" {
		pod := base
		pod.Name, pod.Cgroup, pod.Limit, pod.Request = p.Key, group, unit.MilliCPUs(p.CPULimit), unit.MilliCPUs(p.CPURequest)
		pod.Pod.Group = ""
		all = append(all, pod)
	}
	for _, c := range append(slices.Clone(p.Init), p.Containers...) {
		w := base
		w.Name, w.Cgroup = p.Key+"/"+c.Name, t.running(p.UID, c.Name)
		w.Limit, w.Request = unit.MilliCPUs(c.CPULimit), unit.MilliCPUs(c.CPURequest)
		if w.Exclusive = exclusive[p.UID+"/"+c.Name]; w.Exclusive {
			w.Burst = workload.Burst{Policy: burst.Policy, Source: burst.Source, Off: errExclusive}
		}
		if w.Burst.Wanted() || w.Offline || w.Exclusive {
			all = append(all, w)
		}
	}
	return all
}
