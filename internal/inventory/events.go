package inventory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// Answer is what to answer the runtime, and what that changes in groups that exist.
type Answer struct {
	Reply nri.Reply
	// Changes are what the reply does to groups that exist already: the runtime
	// writes it, and the journal has to know before it does.
	Changes []Desired
}

// Handle takes over one event of the runtime and returns what to answer. final says that
// the runtime can wait no longer for the pod to become known: without it a container of an
// unknown pod that asks for CPUs is ErrUnknownPod, and nothing changes. A pod that requires
// CPUs which it cannot have, or whose CPUs a leaving pod still has, is place.ErrRefused.
func (inv *Inventory) Handle(e nri.Event, final bool) (Answer, error) {
	switch e.Kind {
	case nri.Synchronize:
		inv.synchronize(e)
	case nri.RunPod:
		inv.runPod(e.Pod)
	case nri.StopPod:
		inv.removePod(e.Pod)
	case nri.RemovePod:
		inv.removePod(e.Pod)
		inv.dropAnswersOf(e.Pod)
	case nri.Create:
		return inv.create(e, final)
	case nri.Start, nri.PostStart:
		inv.succeeded(e)
		inv.sandboxes[e.Pod.ID] = own(e.Pod)
		inv.put(e.Pod, e.Container, place.Running)
	case nri.Update:
		return inv.update(e)
	case nri.Stop:
		inv.put(e.Pod, e.Container, place.Stopped)
	case nri.Remove:
		inv.forget(e.Container.ID)
		inv.dropAnswers(func(id string, _ Answered) bool { return id == e.Container.ID })
		inv.forgetForeign(func(id string, _ foreignOwner) bool { return id == e.Container.ID })
	case nri.Foreign:
		inv.foreign(e)
	case nri.PostCreate:
		inv.succeeded(e)
		inv.made(e)
	case nri.PostUpdate:
		inv.recorded(e)
	case nri.Dropped:
		inv.succeeded(e) // no other plugin is to blame
	}
	return Answer{}, nil
}

// runPod takes over a sandbox that runs.
func (inv *Inventory) runPod(box nri.Pod) {
	inv.sandboxes[box.ID] = own(box)
	if p := inv.pods[box.UID]; p != nil && workload.StartsVM(box.RuntimeHandler) {
		inv.node.PutPod(inv.forPlace(p)) // only the sandbox names the handler
	}
	inv.observe(sandboxOf(box))
}

// synchronize replaces everything that the runtime has reported. What is on record for a
// container stays as it was last reported where this list does not say it.
func (inv *Inventory) synchronize(e nri.Event) {
	before := inv.containers
	inv.sandboxes = make(map[string]nri.Pod, len(e.Pods))
	inv.containers = make(map[string]*container, len(e.Containers))
	clear(inv.attempts)
	var all []place.Container
	for _, p := range e.Pods {
		inv.sandboxes[p.ID] = own(p)
		all = append(all, inv.keep(sandboxOf(p)).Container)
	}
	for _, c := range e.Containers {
		if old := before[c.ID]; old != nil && c.Unrecorded {
			inv.containers[c.ID] = old
		}
		kept := inv.keep(inv.containerOf(inv.sandboxes[c.PodID], c, phaseOf(c.State)))
		if !c.Unrecorded {
			inv.compare(kept, c.Resources)
		}
		all = append(all, kept.Container)
	}
	if inv.snapshot.PodsFrom != 0 {
		inv.takePods(inv.snapshot.Pods)
	}
	inv.node.SetContainers(all)
	inv.started = true
	inv.setFacts()
	inv.dropAnswers(func(_ string, a Answered) bool { return !inv.hasSandbox(a.Pod) })
	inv.forgetForeign(func(id string, _ foreignOwner) bool { return inv.containers[id] == nil })
}

// own is a pod without annotations of others: a user may write a lot there.
func own(p nri.Pod) nri.Pod {
	p.Annotations = v1alpha1.OwnAnnotations(p.Annotations)
	return p
}

// sandboxOf is the container that holds the pod's namespaces.
func sandboxOf(p nri.Pod) *container {
	return &container{
		Container: place.Container{ID: p.ID, PodUID: p.UID, Name: "", Sandbox: true, Phase: place.Running},
		group:     p.CgroupPath,
	}
}

func (inv *Inventory) containerOf(p nri.Pod, c nri.Container, phase place.Phase) *container {
	return &container{
		Container: place.Container{ID: c.ID, PodUID: p.UID, Name: c.Name, Phase: phase},
		group:     c.CgroupPath,
		recorded:  c.Resources.CPUs,
	}
}

func phaseOf(s nri.State) place.Phase {
	switch s {
	case nri.Running, nri.Paused:
		return place.Running
	case nri.Stopped:
		return place.Stopped
	case nri.Unknown, nri.Created:
		return place.Created
	}
	return place.Created
}

// keep completes a container with what the host says of it, and remembers it.
func (inv *Inventory) keep(c *container) *container {
	journaled := false
	if c.group != "" && c.Phase != place.Stopped {
		c.CPUs = inv.host.EffectiveCPUs(c.group)
		journaled, c.Pinned = inv.host.Journaled(c.group)
	}
	inv.judge(c, journaled)
	inv.arrivals++
	c.order = inv.arrivals
	if before := inv.containers[c.ID]; before != nil {
		c.order, c.Bound = before.order, before.Bound
		if c.group == "" {
			c.group = before.group
		}
		if c.recorded.IsEmpty() {
			c.recorded, c.ours = before.recorded, before.ours
		}
	}
	if c.Bound.IsEmpty() && c.group != "" && c.Phase == place.Running {
		c.Bound = inv.bound(c, journaled)
	}
	inv.containers[c.ID] = c
	return c
}

// bound returns the CPUs that a container would have without Berth. A list that Berth
// answered and the journal does not have yet bounds nothing: then those of the group above
// count.
func (inv *Inventory) bound(c *container, journaled bool) cpuset.Set {
	if !journaled && c.ours {
		return inv.host.OriginalCPUs(groupAbove(c.group))
	}
	return inv.host.OriginalCPUs(c.group)
}

// put takes over how far a container is. It forgets one that ended after its pod's last
// sandbox: the runtime might never report that it was removed.
func (inv *Inventory) put(p nri.Pod, c nri.Container, phase place.Phase) {
	if phase == place.Stopped && !inv.hasSandbox(p.UID) {
		inv.forget(c.ID)
		return
	}
	inv.observe(inv.containerOf(p, c, phase))
	if phase == place.Running {
		inv.compare(inv.containers[c.ID], c.Resources)
	}
}

func (inv *Inventory) observe(c *container) { inv.node.Observe(inv.keep(c).Container) }

// Saw takes over which CPUs a group was found to run on.
func (inv *Inventory) Saw(group string, cpus cpuset.Set) {
	for _, c := range inv.containers {
		if c.group == group && c.CPUs != cpus {
			c.CPUs = cpus
			_, c.Pinned = inv.host.Journaled(group)
			inv.node.Observe(c.Container)
		}
	}
}

// removePod forgets a sandbox. The pod holds its CPUs until its last one is gone.
func (inv *Inventory) removePod(p nri.Pod) {
	inv.forget(p.ID)
	delete(inv.sandboxes, p.ID)
	if !inv.hasSandbox(p.UID) {
		inv.node.RemovePod(p.UID)
		maps.DeleteFunc(inv.containers, func(_ string, c *container) bool { return c.PodUID == p.UID })
		maps.DeleteFunc(inv.attempts, func(of attempt, _ string) bool { return of.pod == p.UID })
		if _, early := inv.early[p.UID]; early {
			inv.node.DropPod(p.UID) // the API server never reported it
			delete(inv.early, p.UID)
		}
		inv.forgetForeign(func(id string, _ foreignOwner) bool { return inv.containers[id] == nil })
	}
}

// forget forgets a container.
func (inv *Inventory) forget(id string) {
	delete(inv.containers, id)
	inv.node.Remove(id)
}

// supersede forgets containers of a name that were made before another one, and never
// started. The runtime does not report one that it failed to make, and the kubelet tries
// again for as long as the pod is there.
func (inv *Inventory) supersede(by *container) {
	for id, c := range inv.containers {
		if id != by.ID && c.PodUID == by.PodUID && c.Name == by.Name && c.Phase == place.Created && !c.Sandbox {
			inv.forget(id)
			delete(inv.answers, id)
		}
	}
}

// create answers what to change in a container that is about to be made.
func (inv *Inventory) create(e nri.Event, final bool) (Answer, error) {
	inv.sandboxes[e.Pod.ID] = own(e.Pod)
	if inv.pods[e.Pod.UID] == nil {
		if workload.MayPin(e.Pod.Labels, e.Pod.Annotations) && !final {
			return Answer{}, fmt.Errorf("%w: %s/%s", ErrUnknownPod, e.Pod.Namespace, e.Pod.Name)
		}
		inv.early[e.Pod.UID] = earlyPod(inv.early[e.Pod.UID], e)
		inv.refuse()
		inv.node.PutPod(inv.forPlace(inv.early[e.Pod.UID]))
	}
	inv.made(e)
	decided, err := inv.node.Create(e.Pod.UID, e.Container.Name, e.Container.ID)
	if err != nil {
		return Answer{}, fmt.Errorf("container %s of %s/%s: %w", e.Container.Name, e.Pod.Namespace, e.Pod.Name, err)
	}
	created := inv.keep(inv.containerOf(e.Pod, e.Container, place.Created))
	inv.supersede(created)
	if inv.conflicts(e) {
		return Answer{}, nil
	}
	answer := inv.answer(decided.Others)
	for _, d := range decided.Own {
		answer.Reply.Adjust = settings(d)
		inv.remember(created, answer.Reply.Adjust)
		inv.attempts[attempt{e.Pod.UID, e.Container.Name}] = e.Container.ID
	}
	return answer, nil
}

// answer turns what is desired for containers that exist into a reply.
func (inv *Inventory) answer(desired []place.Desired) Answer {
	var a Answer
	for _, d := range desired {
		a.Reply.Updates = append(a.Reply.Updates, nri.Change{ContainerID: d.ContainerID, Settings: settings(d)})
		c := inv.containers[d.ContainerID]
		if c == nil {
			continue
		}
		inv.remember(c, settings(d))
		if c.group != "" {
			a.Changes = append(a.Changes, inv.desired(c, d))
		}
	}
	return a
}

func settings(d place.Desired) nri.Settings {
	return nri.Settings{CPUs: d.CPUs, Mems: d.Mems, NoQuota: d.NoQuota}
}

// update answers a change of resources that the kubelet asks for. What Berth set
// stays: a pod with exclusive CPUs runs without a quota. With an Obstacle, and where the
// update asks for CPUs, the answer is empty: it would replace what their owner asks for.
func (inv *Inventory) update(e nri.Event) (Answer, error) {
	inv.recorded(e)
	if inv.pods[e.Pod.UID] == nil {
		return Answer{}, nil
	}
	decided, err := inv.node.Resize(e.Pod.UID)
	if err != nil {
		return Answer{}, fmt.Errorf("resize of %s/%s: %w", e.Pod.Namespace, e.Pod.Name, err)
	}
	asks, a := e.Requested.CPUs, inv.answers[e.Container.ID]
	if inv.Obstacle() != (Obstacle{}) || !asks.IsEmpty() && !slices.Contains(a.CPUs, asks) {
		return Answer{}, nil
	}
	desired := decided.Others
	own := slices.ContainsFunc(decided.Own, func(d place.Desired) bool { return d.ContainerID == e.Container.ID })
	if !own {
		for _, d := range inv.node.Desired() {
			if d.ContainerID == e.Container.ID {
				desired, own = append(desired, d), true
			}
		}
	}
	answer := inv.answer(append(desired, decided.Own...))
	if c := inv.containers[e.Container.ID]; !own && c != nil && c.ours && inv.facts.Machine != nil {
		// The runtime writes all that it has on record: the CPUs that were left while
		// others were pinned, too. NRI has no way to make it forget them.
		all := nri.Settings{CPUs: inv.facts.Machine.Topology().Online}
		answer.Reply.Updates = append(answer.Reply.Updates, nri.Change{ContainerID: c.ID, Settings: all})
		inv.remember(c, all)
	}
	return answer, nil
}

// otherPlugin is the Reason of an Obstacle that the runtime names.
const otherPlugin = "OtherNRIPlugin"

// foreign remembers that another plugin sets CPU sets. It outlasts the sets themselves.
func (inv *Inventory) foreign(e nri.Event) {
	inv.hasOwner(e.Container.ID, foreignOwner{Obstacle{Reason: otherPlugin, Message: "the NRI plugin " + e.Owner + " sets CPU sets"}, true})
}
