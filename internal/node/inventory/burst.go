package inventory

import (
	"errors"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/unit"
)

// errExclusive is why a container with exclusive CPUs does not burst.
var errExclusive = errors.New("it runs without a quota, on exclusive CPUs")

// InPod is a container of a pod, by the pod's UID and the container's name.
type InPod struct{ UID, Name string }

// Placed is what was decided about the CPUs of a container.
type Placed struct {
	// Exclusive is true if it has exclusive CPUs, Unlimited if it has no quota because of them.
	Exclusive, Unlimited bool
}

// WorkloadsWith returns the groups whose quota the agent sets, or whose use it counts, by pod and container: groups that
// may burst, offline groups, and groups with exclusive CPUs. Containers that do not run now have no group. Findings are
// by pod.
func (inv *Inventory) WorkloadsWith(placed map[InPod]Placed) ([]workload.Workload, map[string]workload.Findings) {
	if inv.owner.agent != (observed.Obstacle{}) || inv.Policies.strategies == nil {
		return nil, nil
	}
	b := bursting{containers: &inv.containers, strategies: inv.Policies.strategies, placed: placed}
	var all []workload.Workload
	findings := map[string]workload.Findings{}
	for _, uid := range slices.Sorted(maps.Keys(inv.Pods.known)) {
		p := inv.Pods.known[uid]
		if p.Ended {
			continue
		}
		burst, found := inv.Policies.strategies.Burst(&p.Pod, p.BestEffort)
		if len(found.Refused)+len(found.Warnings) > 0 {
			findings[uid] = found
		}
		all = append(all, b.of(p, burst)...)
	}
	return all, findings
}

// bursting makes workloads of pods.
type bursting struct {
	containers *Containers
	strategies *strategy.Strategies
	placed     map[InPod]Placed
}

// of returns the workloads of one pod.
func (b *bursting) of(p *cluster.Pod, burst workload.Burst) []workload.Workload {
	class := b.strategies.Class(&p.Pod, p.BestEffort)
	group := b.containers.GroupOfPod(p.UID)
	limited := p.CPULimit > 0
	base := workload.Workload{
		Class: string(class), Offline: class.Offline(), Burst: burst,
		Pod: workload.InPod{UID: p.UID, Group: group, Derived: !limited},
	}
	var all []workload.Workload
	if limited && burst.Wanted() && group != "" {
		pod := base
		pod.Name, pod.Cgroup, pod.Request = p.Key, group, unit.MilliCPUs(p.CPURequest)
		pod.Limit, pod.Asked = limits(p.CPULimit, p.CPUHeld)
		pod.Pod.Group = ""
		all = append(all, pod)
	}
	for _, c := range append(slices.Clone(p.Init), p.Containers...) {
		w := base
		w.Name, w.Cgroup = p.Key+"/"+c.Name, b.containers.running(p.UID, c.Name)
		w.Request = unit.MilliCPUs(c.CPURequest)
		w.Limit, w.Asked = limits(c.CPULimit, c.CPUHeld)
		w.InForce = c.CPUInForce
		placed := b.placed[InPod{p.UID, c.Name}]
		if w.Exclusive = placed.Exclusive; placed.Unlimited {
			w.Burst = workload.Burst{Policy: burst.Policy, Source: burst.Source, Off: errExclusive}
		}
		if w.Burst.Wanted() || w.Offline || w.Exclusive {
			all = append(all, w)
		}
	}
	if !limited && burst.Wanted() {
		all = append(all, b.unlisted(p, base)...)
	}
	return all
}

// unlisted returns the running containers of a pod that its spec does not list, as kubectl debug starts them: they have
// no limit, and bursting containers beside them must know that.
func (b *bursting) unlisted(p *cluster.Pod, base workload.Workload) []workload.Workload {
	var names []string
	for _, c := range b.containers.byID {
		listed := func(l workload.Container) bool { return l.Name == c.Name }
		if c.PodUID != p.UID || c.Sandbox || slices.ContainsFunc(p.Init, listed) || slices.ContainsFunc(p.Containers, listed) {
			continue
		}
		names = append(names, c.Name)
	}
	slices.Sort(names)
	var all []workload.Workload
	for _, name := range slices.Compact(names) {
		w := base
		w.Name, w.Cgroup = p.Key+"/"+name, b.containers.running(p.UID, name)
		if w.Cgroup != "" {
			all = append(all, w)
		}
	}
	return all
}

// limits returns the limit in effect, and the spec's limit if the kubelet holds a resize.
func limits(spec, held int64) (limit, asked unit.CPUs) {
	if held > 0 {
		return unit.MilliCPUs(held), unit.MilliCPUs(spec)
	}
	return unit.MilliCPUs(spec), 0
}
