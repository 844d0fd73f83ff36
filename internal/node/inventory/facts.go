package inventory

import (
	"cmp"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/intent/strategy"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/cluster"
	"github.com/berth-project/berth/internal/node/observed"
)

// running has the running containers, as the capabilities see them.
type running struct {
	list []observed.Workload
	// present is list, and one container of each pod that is here without a running container.
	present []observed.Workload
	offline []observed.Pod
	// made is true if nothing changed since the lists were made.
	made bool
}

// Running returns the running containers of known pods, and the workloads of a host without Kubernetes, by name. It
// returns the same list until something changes. Their Bound says only what does not depend on decisions.
func (inv *Inventory) Running() []observed.Workload { return runningOf(inv).list }

// Here returns Running and the first container of each known pod that has a sandbox but no running container, as
// between two starts. That container has no ID and no group of its own. present is the same list until something
// changes. offline are the offline pods and workloads, also pods that have ended or have no sandbox yet.
func (inv *Inventory) Here() (present []observed.Workload, offline []observed.Pod) {
	r := runningOf(inv)
	return r.present, r.offline
}

// runningOf returns what runs, and makes it again after a change. It is empty while everything is restored.
func runningOf(inv *Inventory) *running {
	if inv.running.made {
		return &inv.running
	}
	if inv.Obstacle().Restores() {
		inv.running = running{made: true}
		return &inv.running
	}
	f := factsOf{inv: inv, strategies: inv.Policies.strategiesNow()}
	r := running{made: true}
	for _, w := range inv.workloads {
		c := f.ofWorkload(w)
		r.list = append(r.list, c)
		r.addOffline(&c, true)
	}
	for _, p := range inv.Pods.All() {
		f.addPod(&r, p)
	}
	r.present = append(r.present, r.list...)
	byName := func(a, b observed.Workload) int { return strings.Compare(a.Name, b.Name) }
	slices.SortFunc(r.list, byName)
	slices.SortFunc(r.present, byName)
	slices.SortFunc(r.offline, func(a, b observed.Pod) int { return strings.Compare(a.Name, b.Name) })
	inv.running = r
	return &inv.running
}

// addOffline adds the pod or workload of container c if it is offline. here means that the runtime has made a part of
// it, and that it has not ended.
func (r *running) addOffline(c *observed.Workload, here bool) {
	if !c.Class.Offline() {
		return
	}
	w := observed.Pod{Name: c.Name, Group: c.Whole(), Here: here}
	if c.Pod != "" {
		w.Name, w.UID = c.Pod, c.PodUID
	}
	r.offline = append(r.offline, w)
}

// factsOf makes the facts of containers.
type factsOf struct {
	inv        *Inventory
	strategies *strategy.Strategies
}

// of completes the facts that every kind has.
func (f *factsOf) of(c observed.Workload, pod *workload.Pod, bestEffort bool) observed.Workload {
	c.Labels, c.Annotations = pod.Labels, pod.Annotations
	c.Class = f.strategies.Class(pod, bestEffort)
	c.QOS, c.QOSSource = f.strategies.QOS(c.Class)
	return c
}

// ofWorkload returns the facts of a workload of a host without Kubernetes. An administrator may have bound its group.
func (f *factsOf) ofWorkload(w workload.Workload) observed.Workload {
	pod := podOf(w)
	c := observed.Workload{PodUID: pod.UID, Name: w.Name, ID: w.Cgroup, Group: w.Cgroup}
	if k := f.inv.containers.byID[w.Cgroup]; k != nil {
		all := f.inv.containers.host.EffectiveCPUs("")
		c.Bound = k.Pinned || !k.Bound.IsEmpty() && !all.IsSubsetOf(k.Bound)
	}
	return f.of(c, &pod, false)
}

// addPod adds the facts of a pod. A pod that only the runtime has reported is added as a whole only: its containers are
// a guess.
func (f *factsOf) addPod(r *running, p *cluster.Pod) {
	here := !p.Ended && f.inv.containers.HasSandbox(p.UID)
	whole := f.ofWhole(p)
	r.addOffline(&whole, here)
	if p.Ended || f.inv.Pods.known[p.UID] == nil {
		return
	}
	run := f.ofPod(p)
	r.list = append(r.list, run...)
	if here && len(run) == 0 && whole.Container != "" {
		r.present = append(r.present, whole)
	}
}

// ofWhole returns the facts of a pod: its first container's, without the container's own state.
func (f *factsOf) ofWhole(p *cluster.Pod) observed.Workload {
	key := cmp.Or(p.Key, p.Namespace+"/"+p.Name)
	c := observed.Workload{PodUID: p.UID, Name: key, Pod: key, PodGroup: f.inv.containers.GroupOfPod(p.UID), Resizing: p.Resizing}
	if len(p.Containers) > 0 {
		c.Container, c.Name = p.Containers[0].Name, key+"/"+p.Containers[0].Name
	}
	return f.of(c, &p.Pod, p.BestEffort)
}

// ofPod returns the facts of the running app containers and sidecars of a pod.
func (f *factsOf) ofPod(p *cluster.Pod) []observed.Workload {
	all := make([]observed.Workload, 0, len(p.Containers))
	group := f.inv.containers.GroupOfPod(p.UID)
	for i := range p.Containers {
		one := &p.Containers[i]
		k := f.inv.containers.runs(p.UID, one.Name)
		if k == nil {
			continue
		}
		c := observed.Workload{
			PodUID: p.UID, Name: p.Key + "/" + one.Name, Pod: p.Key, Container: one.Name, ID: k.ID, Group: k.group,
			PodGroup: group, Resizing: p.Resizing, Bound: f.bound(p, one, k),
		}
		all = append(all, f.of(c, &p.Pod, p.BestEffort))
	}
	return all
}

// bound reports whether a container of a pod has CPUs of its own: from Berth by the journal, from another owner of its
// set, or from the owner of all sets if the container asks for them, as with the kubelet's static policy.
func (f *factsOf) bound(p *cluster.Pod, one *workload.Container, k *container) bool {
	if k.Pinned || f.inv.owner.of(k.ID) {
		return true
	}
	integer := one.CPULimit >= milli && one.CPULimit%milli == 0
	return integer && f.inv.owner.known() != (observed.Obstacle{}) && (guaranteed(p) || workload.MayPin(p.Labels, p.Annotations))
}

// milli is one CPU in thousandths.
const milli = 1000

// guaranteed reports whether the pod's QoS class in Kubernetes is Guaranteed.
func guaranteed(p *cluster.Pod) bool {
	return !slices.ContainsFunc(slices.Concat(p.Init, p.Containers), func(c workload.Container) bool {
		return c.CPULimit == 0 || c.CPURequest != c.CPULimit || c.MemoryLimit == 0 || c.MemoryRequest != c.MemoryLimit
	})
}

// runs returns the running container of a pod with this name, nil for none. Of several, the last that came is valid.
func (cs *Containers) runs(uid, name string) *container {
	var best *container
	for _, c := range cs.byID {
		if c.PodUID != uid || c.Name != name || c.Phase != observed.Running || c.group == "" {
			continue
		}
		if best == nil || c.order > best.order {
			best = c
		}
	}
	return best
}
