package inventory

import (
	"fmt"
	"maps"

	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/node/nri"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Observe stores one event of the runtime. For a container that is about to be made, call Creating and Created instead.
func (inv *Inventory) Observe(e nri.Event) {
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
		inv.containers.answers.dropOf(e.Pod, !inv.containers.HasSandbox(e.Pod.UID))
	case nri.Start, nri.PostStart:
		inv.containers.answers.succeeded(e)
		inv.containers.sandboxes[e.Pod.ID] = own(e.Pod)
		inv.put(e.Pod, e.Container, observed.Running)
	case nri.Stop:
		inv.put(e.Pod, e.Container, observed.Stopped)
	case nri.Remove:
		removed(inv, e.Container.ID)
	case nri.Foreign:
		inv.hasOwner(e.Container.ID, otherPluginOf(e))
	case nri.PostCreate:
		inv.containers.answers.succeeded(e)
		inv.made(e)
	case nri.Update, nri.PostUpdate:
		if c := inv.containers.byID[e.Container.ID]; c != nil {
			inv.containers.recorded(c, e.Container.Resources.CPUs)
			inv.compare(c, e.Container.Resources)
		}
	case nri.Dropped:
		inv.containers.answers.succeeded(e) // no other plugin caused this
	}
}

// runPod stores a running sandbox.
func (inv *Inventory) runPod(box nri.Pod) {
	inv.containers.sandboxes[box.ID] = own(box)
	if inv.Pods.known[box.UID] != nil && workload.StartsVM(box.RuntimeHandler) {
		inv.changes.add(Change{What: PodSeen, ID: box.UID}) // only the sandbox names the handler
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
	inv.changes.add(Change{What: ContainersListed, Containers: all})
	inv.started = true
	inv.ownerChanged()
	cs.answers.drop(func(_ string, a Answered) bool { return !cs.HasSandbox(a.Pod) })
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
	if phase == observed.Stopped && !inv.containers.HasSandbox(p.UID) {
		inv.forget(c.ID)
		return
	}
	kept := inv.observe(containerOf(p, c, phase))
	if phase == observed.Running {
		inv.compare(kept, c.Resources)
	}
}

// observe remembers a container with the host's data, and records the change.
func (inv *Inventory) observe(c *container) *container {
	kept := inv.containers.keep(c)
	inv.changes.saw(kept)
	return kept
}

// Saw stores the CPUs that groups were found to run on, none if unknown, and forgets ended containers that the runtime
// does not report.
func (inv *Inventory) Saw(effective func(group string) cpuset.Set) {
	forgetEnded(inv)
	for _, c := range inv.containers.saw(effective) {
		inv.running.made = false
		inv.changes.saw(c)
	}
}

// removePod forgets a sandbox. The pod retains its CPUs until its last sandbox is gone.
func (inv *Inventory) removePod(p nri.Pod) {
	inv.forget(p.ID)
	delete(inv.containers.sandboxes, p.ID)
	if !inv.containers.HasSandbox(p.UID) {
		run := inv.containers.outliving(p.UID)
		inv.changes.add(Change{What: PodEmpty, ID: p.UID})
		maps.DeleteFunc(inv.containers.byID, func(_ string, c *container) bool { return c.PodUID == p.UID })
		for _, c := range run {
			inv.containers.byID[c.ID] = c
			inv.changes.saw(c)
		}
		inv.containers.answers.end(p.UID)
		if _, early := inv.Pods.early[p.UID]; early {
			inv.changes.add(Change{What: PodGone, ID: p.UID})
			delete(inv.Pods.early, p.UID)
		}
		inv.forgetGone()
	}
}

func (inv *Inventory) forget(id string) {
	delete(inv.containers.byID, id)
	inv.changes.add(Change{What: ContainerGone, ID: id})
}

// Creating stores the pod of a container that is about to be made, and who else sets the container's CPUs. final means
// that the runtime can wait no longer for an unknown pod. Otherwise a container of an unknown pod that asks for CPUs
// returns ErrUnknownPod.
func (inv *Inventory) Creating(e nri.Event, final bool) error {
	inv.running.made = false
	inv.containers.sandboxes[e.Pod.ID] = own(e.Pod)
	if inv.Pods.known[e.Pod.UID] == nil {
		if workload.MayPin(e.Pod.Labels, e.Pod.Annotations) && !final {
			return fmt.Errorf("%w: %s/%s", ErrUnknownPod, e.Pod.Namespace, e.Pod.Name)
		}
		inv.Pods.early[e.Pod.UID] = earlyPod(inv.Pods.early[e.Pod.UID], e)
		inv.changes.add(Change{What: PodEarly, ID: e.Pod.UID})
	}
	inv.made(e)
	return nil
}

// Created stores a container that the runtime makes once it has an answer. It reports whether the answer may set
// values: not after the last creation of the container failed on Berth's values.
func (inv *Inventory) Created(e nri.Event) bool {
	created := inv.containers.keep(containerOf(e.Pod, e.Container, observed.Created))
	for _, id := range inv.containers.superseded(created) {
		inv.forget(id)
		delete(inv.containers.answers.byID, id)
	}
	return !inv.containers.answers.conflicts(e)
}

// Takes reports whether an answer may set values of a container: it has no other owner, and the runtime lists it.
func (inv *Inventory) Takes(id string) bool {
	return !inv.owner.of(id) && !inv.containers.isUnlisted(id)
}
