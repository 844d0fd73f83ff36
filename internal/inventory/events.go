package inventory

import (
	"fmt"
	"maps"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/observed"
	"github.com/berth-project/berth/internal/place"
	"github.com/berth-project/berth/internal/workload"
)

// Answer is the answer to the runtime, and what it changes in existing groups.
type Answer struct {
	Reply nri.Reply
	// Changes are the effects of the reply on existing groups: the runtime writes them, and the journal must have them
	// first.
	Changes []place.Desired
}

// Handle processes one event of the runtime and returns the answer. final means that the runtime can wait no longer for
// an unknown pod. Otherwise a container of an unknown pod that asks for CPUs returns ErrUnknownPod, and nothing
// changes. A pod that requires CPUs which it cannot have, or which a leaving pod still has, returns place.ErrRefused.
func (inv *Inventory) Handle(e nri.Event, final bool) (Answer, error) {
	inv.running.made = false
	switch e.Kind {
	case nri.Synchronize:
		inv.synchronize(e)
	case nri.RunPod:
		inv.runPod(e.Pod)
	case nri.StopPod:
		inv.removePod(e.Pod)
	case nri.RemovePod:
		inv.removePod(e.Pod)
		inv.containers.answers.dropOf(e.Pod, !inv.containers.hasSandbox(e.Pod.UID))
	case nri.Create:
		return inv.create(e, final)
	case nri.Start, nri.PostStart:
		inv.containers.answers.succeeded(e)
		inv.containers.sandboxes[e.Pod.ID] = own(e.Pod)
		inv.put(e.Pod, e.Container, observed.Running)
	case nri.Update:
		return inv.update(e, final)
	case nri.Stop:
		inv.put(e.Pod, e.Container, observed.Stopped)
	case nri.Remove:
		removed(inv, e.Container.ID)
	case nri.Foreign:
		inv.hasOwner(e.Container.ID, otherPluginOf(e))
	case nri.PostCreate:
		inv.containers.answers.succeeded(e)
		inv.made(e)
	case nri.PostUpdate:
		inv.recorded(e)
	case nri.Dropped:
		inv.containers.answers.succeeded(e) // no other plugin caused this
	}
	return Answer{}, nil
}

// runPod stores a running sandbox.
func (inv *Inventory) runPod(box nri.Pod) {
	inv.containers.sandboxes[box.ID] = own(box)
	if p := inv.known[box.UID]; p != nil && workload.StartsVM(box.RuntimeHandler) {
		inv.node.PutPod(inv.forPlace(p)) // only the sandbox names the handler
	}
	inv.observe(sandboxOf(box))
}

// synchronize replaces everything that the runtime has reported. A container without a record in this list retains its
// last record. An unlisted container stays while it runs.
func (inv *Inventory) synchronize(e nri.Event) {
	cs := &inv.containers
	before, sandboxes := cs.byID, cs.sandboxes
	cs.unlisted = map[string]bool{}
	cs.sandboxes = make(map[string]nri.Pod, len(e.Pods))
	cs.byID = make(map[string]*container, len(e.Containers))
	clear(cs.answers.attempts)
	var all []observed.Container
	for _, p := range e.Pods {
		cs.sandboxes[p.ID] = own(p)
		all = append(all, cs.keep(sandboxOf(p)).Container)
	}
	for _, c := range e.Containers {
		if box, known := sandboxes[c.PodID]; known { // its sandbox has ended, but it still runs
			cs.keepSandbox(c.PodID, box)
		}
		if old := before[c.ID]; old != nil && c.Unrecorded {
			cs.byID[c.ID] = old
		}
		kept := cs.keep(containerOf(cs.sandboxes[c.PodID], c, phaseOf(c.State)))
		if !c.Unrecorded {
			inv.compare(kept, c.Resources)
		}
		all = append(all, kept.Container)
	}
	all = append(all, cs.keepUnlisted(before, sandboxes)...)
	inv.takePods()
	inv.node.SetContainers(all)
	inv.started = true
	inv.setFacts()
	cs.answers.drop(func(_ string, a Answered) bool { return !cs.hasSandbox(a.Pod) })
	inv.forgetGone()
}

// removed forgets an ended container.
func removed(inv *Inventory, id string) {
	if inv.containers.outlives(id) {
		return
	}
	inv.forget(id)
	inv.containers.answers.drop(func(answered string, _ Answered) bool { return answered == id })
	inv.forgetForeign(func(set string, _ foreignOwner) bool { return set == id })
}

// put stores the phase of a container. It forgets a container that ended after its pod's last sandbox: the runtime
// might never report its removal.
func (inv *Inventory) put(p nri.Pod, c nri.Container, phase observed.Phase) {
	if phase == observed.Stopped && inv.containers.outlives(c.ID) {
		return
	}
	if phase == observed.Stopped && !inv.containers.hasSandbox(p.UID) {
		inv.forget(c.ID)
		return
	}
	kept := inv.observe(containerOf(p, c, phase))
	if phase == observed.Running {
		inv.compare(kept, c.Resources)
	}
}

// observe completes a container, remembers it, and passes it to place.
func (inv *Inventory) observe(c *container) *container {
	kept := inv.containers.keep(c)
	inv.node.Observe(kept.Container)
	return kept
}

// Saw stores the CPUs that groups were found to run on, none if unknown, and forgets ended containers that the runtime
// does not report.
func (inv *Inventory) Saw(effective func(group string) cpuset.Set) {
	forgetEnded(inv)
	for _, c := range inv.containers.saw(effective) {
		inv.running.made = false
		inv.node.Observe(c)
	}
}

// removePod forgets a sandbox. The pod retains its CPUs until its last sandbox is gone.
func (inv *Inventory) removePod(p nri.Pod) {
	inv.forget(p.ID)
	delete(inv.containers.sandboxes, p.ID)
	if !inv.containers.hasSandbox(p.UID) {
		run := inv.containers.outliving(p.UID)
		inv.node.RemovePod(p.UID)
		maps.DeleteFunc(inv.containers.byID, func(_ string, c *container) bool { return c.PodUID == p.UID })
		for _, c := range run {
			inv.containers.byID[c.ID] = c
			inv.node.Observe(c.Container)
		}
		inv.containers.answers.end(p.UID)
		if _, early := inv.early[p.UID]; early {
			inv.node.DropPod(p.UID) // the API server never reported it
			delete(inv.early, p.UID)
		}
		inv.forgetGone()
	}
}

func (inv *Inventory) forget(id string) {
	delete(inv.containers.byID, id)
	inv.node.Remove(id)
}

// create returns the answer for a container that is about to be made.
func (inv *Inventory) create(e nri.Event, final bool) (Answer, error) {
	inv.containers.sandboxes[e.Pod.ID] = own(e.Pod)
	if inv.known[e.Pod.UID] == nil {
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
	created := inv.containers.keep(containerOf(e.Pod, e.Container, observed.Created))
	for _, id := range inv.containers.superseded(created) {
		inv.forget(id)
		delete(inv.containers.answers.byID, id)
	}
	if inv.containers.answers.conflicts(e) {
		return Answer{}, nil
	}
	answer := inv.answer(decided.Others)
	if inv.owner.of(e.Container.ID) {
		return answer, nil // if two plugins set the same value, the runtime accepts neither
	}
	for _, d := range decided.Own {
		answer.Reply.Adjust = settings(d)
		inv.containers.remember(created, answer.Reply.Adjust)
		inv.containers.answers.attempted(e)
	}
	return answer, nil
}

// answer makes a reply from the desired state of existing containers. It does not change existing memory nodes. The
// kernel rebinds memory policies and visits each thread before the runtime's write ends (update_tasks_nodemask in
// kernel/cgroup/cpuset.c), while the runtime waits. The next pass changes them after a check of the group.
//
// Values of another owner stay on the runtime's record: the next pass restricts the group itself, and also the group of
// a container whose shim does not answer the runtime.
func (inv *Inventory) answer(desired []place.Desired) Answer {
	var a Answer
	for _, d := range desired {
		if inv.owner.of(d.ContainerID) || inv.containers.isUnlisted(d.ContainerID) {
			continue
		}
		if c := inv.containers.byID[d.ContainerID]; c != nil && c.group != "" && !d.Mems.IsEmpty() {
			if has := inv.containers.host.EffectiveMems(c.group); !has.IsEmpty() {
				d.Mems = has
			}
		}
		a.Reply.Updates = append(a.Reply.Updates, nri.Change{ContainerID: d.ContainerID, Settings: settings(d)})
		if c := inv.containers.byID[d.ContainerID]; c != nil {
			inv.containers.remember(c, settings(d))
		}
		if inv.join(&d, &inv.containers) {
			a.Changes = append(a.Changes, d)
		}
	}
	return a
}

func settings(d place.Desired) nri.Settings {
	return nri.Settings{CPUs: d.CPUs, Mems: d.Mems, NoQuota: d.NoQuota}
}

// update answers a change of resources that the kubelet requests. Berth's values stay: a pod with exclusive CPUs runs
// without a quota. If another program sets CPU sets, or the update asks for CPUs, the answer is empty: it would replace
// the owner's request.
func (inv *Inventory) update(e nri.Event, final bool) (Answer, error) {
	inv.recorded(e)
	p := inv.known[e.Pod.UID]
	if p == nil {
		return Answer{}, nil
	}
	decided, err := resize(inv, p, e, final)
	if err != nil {
		return Answer{}, fmt.Errorf("resize of %s/%s: %w", e.Pod.Namespace, e.Pod.Name, err)
	}
	asks, a := e.Requested.CPUs, inv.containers.answers.byID[e.Container.ID]
	if !heals(inv) || !asks.IsEmpty() && !slices.Contains(a.CPUs, asks) {
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
	if c := inv.containers.byID[e.Container.ID]; !own && c != nil && c.ours {
		// The runtime writes its whole record: also the CPUs that were left while other containers were pinned. NRI
		// cannot make it forget them.
		all := nri.Settings{CPUs: inv.facts.Machine.Topology().Online}
		answer.Reply.Updates = append(answer.Reply.Updates, nri.Change{ContainerID: c.ID, Settings: all})
		inv.containers.remember(c, all)
	}
	return answer, nil
}
