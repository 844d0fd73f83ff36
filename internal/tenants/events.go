package tenants

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/arbiter"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/nri"
	"github.com/berth-project/berth/internal/workload"
)

// Answer is what to answer the runtime, and what that changes in groups that exist.
type Answer struct {
	Reply nri.Reply
	// Changes are what the reply does to groups that exist already: the runtime
	// writes it, and the journal has to know before it does.
	Changes []Want
}

// Handle takes over one event of the runtime and returns what to answer. final
// says that nobody can wait any longer for the pod to become known: without it a
// container of an unknown pod that asks for CPUs is ErrUnknownPod, and nothing
// changes. A pod that requires CPUs which it cannot have, or whose CPUs a pod has that
// leaves, is arbiter.ErrRefused.
func (t *Tenants) Handle(e nri.Event, final bool) (Answer, error) {
	switch e.Kind {
	case nri.Synchronize:
		t.synchronize(e)
	case nri.RunPod:
		t.runPod(e.Pod)
	case nri.StopPod:
		t.removePod(e.Pod)
	case nri.RemovePod:
		t.removePod(e.Pod)
		t.dropAnswersOf(e.Pod)
	case nri.Create:
		return t.create(e, final)
	case nri.Start, nri.PostStart:
		t.succeeded(e)
		t.sandboxes[e.Pod.ID] = own(e.Pod)
		t.put(e.Pod, e.Container, arbiter.Running)
	case nri.Update:
		return t.update(e)
	case nri.Stop:
		t.put(e.Pod, e.Container, arbiter.Stopped)
	case nri.Remove:
		t.forget(e.Container.ID)
		t.dropAnswers(func(id string, _ Answered) bool { return id == e.Container.ID })
		t.forgetForeign(func(id string, _ foreignOwner) bool { return id == e.Container.ID })
	case nri.Foreign:
		t.foreign(e)
	case nri.PostCreate:
		t.succeeded(e)
		t.made(e)
	case nri.PostUpdate:
		t.recorded(e)
	case nri.Dropped:
		t.succeeded(e) // no other plugin is to blame
	}
	return Answer{}, nil
}

// runPod takes over a sandbox that runs.
func (t *Tenants) runPod(box nri.Pod) {
	t.sandboxes[box.ID] = own(box)
	if p := t.pods[box.UID]; p != nil && workload.StartsVM(box.RuntimeHandler) {
		t.arbiter.PutPod(t.arbiterPod(p)) // only the sandbox says so
	}
	t.observe(sandboxOf(box))
}

// synchronize replaces everything that the runtime ever told.
func (t *Tenants) synchronize(e nri.Event) {
	t.sandboxes = make(map[string]nri.Pod, len(e.Pods))
	t.containers = make(map[string]*container, len(e.Containers))
	clear(t.tries)
	var all []arbiter.Container
	for _, p := range e.Pods {
		t.sandboxes[p.ID] = own(p)
		all = append(all, t.keep(sandboxOf(p)).Container)
	}
	for _, c := range e.Containers {
		kept := t.keep(t.containerOf(t.sandboxes[c.PodID], c, phaseOf(c.State)))
		t.compare(kept, c.Resources)
		all = append(all, kept.Container)
	}
	if t.snapshot.PodsFrom != 0 {
		t.takePods(t.snapshot.Pods)
	}
	t.arbiter.SetContainers(all)
	t.started = true
	t.tellFacts()
	t.dropAnswers(func(_ string, a Answered) bool { return !t.hasSandbox(a.Pod) })
	t.forgetForeign(func(id string, _ foreignOwner) bool { return t.containers[id] == nil })
}

// own is a pod without what is not Berth's: a tenant may write a lot there.
func own(p nri.Pod) nri.Pod {
	p.Annotations = v1alpha1.OwnAnnotations(p.Annotations)
	return p
}

// sandboxOf is the container that holds the pod's namespaces.
func sandboxOf(p nri.Pod) *container {
	return &container{
		Container: arbiter.Container{ID: p.ID, PodUID: p.UID, Name: "", Sandbox: true, Phase: arbiter.Running},
		group:     p.CgroupPath,
	}
}

func (t *Tenants) containerOf(p nri.Pod, c nri.Container, phase arbiter.Phase) *container {
	return &container{
		Container: arbiter.Container{ID: c.ID, PodUID: p.UID, Name: c.Name, Phase: phase},
		group:     c.CgroupPath,
		told:      c.Resources.CPUs,
	}
}

func phaseOf(s nri.State) arbiter.Phase {
	switch s {
	case nri.Running, nri.Paused:
		return arbiter.Running
	case nri.Stopped:
		return arbiter.Stopped
	case nri.Unknown, nri.Created:
		return arbiter.Created
	}
	return arbiter.Created
}

// keep completes what is known of a container from the host, and remembers it.
func (t *Tenants) keep(c *container) *container {
	journaled := false
	if c.group != "" && c.Phase != arbiter.Stopped {
		c.CPUs = t.host.EffectiveCPUs(c.group)
		journaled, c.Pinned = t.host.Journaled(c.group)
	}
	t.judge(c, journaled)
	t.arrivals++
	c.order = t.arrivals
	if before := t.containers[c.ID]; before != nil {
		c.order, c.Bound = before.order, before.Bound
		if c.group == "" {
			c.group = before.group
		}
		if c.told.IsEmpty() {
			c.told, c.ours = before.told, before.ours
		}
	}
	if c.Bound.IsEmpty() && c.group != "" && c.Phase == arbiter.Running {
		c.Bound = t.bound(c, journaled)
	}
	t.containers[c.ID] = c
	return c
}

// bound returns the CPUs that a container would have without Berth. A list that Berth
// answered and the journal does not have yet bounds nothing: then those of the group above
// count.
func (t *Tenants) bound(c *container, journaled bool) cpuset.Set {
	if !journaled && c.ours {
		return t.host.OriginalCPUs(groupAbove(c.group))
	}
	return t.host.OriginalCPUs(c.group)
}

// put takes over how far a container is. One that ended after its pod's last sandbox is
// of no use to anybody, and nobody might tell that it was removed.
func (t *Tenants) put(p nri.Pod, c nri.Container, phase arbiter.Phase) {
	if phase == arbiter.Stopped && !t.hasSandbox(p.UID) {
		t.forget(c.ID)
		return
	}
	t.observe(t.containerOf(p, c, phase))
	if phase == arbiter.Running {
		t.compare(t.containers[c.ID], c.Resources)
	}
}

func (t *Tenants) observe(c *container) { t.arbiter.Observe(t.keep(c).Container) }

// Saw takes over which CPUs a group was found to run on.
func (t *Tenants) Saw(group string, cpus cpuset.Set) {
	for _, c := range t.containers {
		if c.group == group && c.CPUs != cpus {
			c.CPUs = cpus
			_, c.Pinned = t.host.Journaled(group)
			t.arbiter.Observe(c.Container)
		}
	}
}

// removePod forgets a sandbox. The pod holds its CPUs until its last one is gone.
func (t *Tenants) removePod(p nri.Pod) {
	t.forget(p.ID)
	delete(t.sandboxes, p.ID)
	if !t.hasSandbox(p.UID) {
		t.arbiter.RemovePod(p.UID)
		maps.DeleteFunc(t.containers, func(_ string, c *container) bool { return c.PodUID == p.UID })
		maps.DeleteFunc(t.tries, func(of try, _ string) bool { return of.pod == p.UID })
		if _, early := t.early[p.UID]; early {
			t.arbiter.DropPod(p.UID) // nobody else will say so
			delete(t.early, p.UID)
		}
	}
}

// forget forgets a container.
func (t *Tenants) forget(id string) {
	delete(t.containers, id)
	t.arbiter.Remove(id)
}

// supersede forgets containers of a name that were made before another one, and never
// started. Of one that the runtime failed to make nobody says so, and the kubelet tries
// again for as long as the pod is there.
func (t *Tenants) supersede(by *container) {
	for id, c := range t.containers {
		if id != by.ID && c.PodUID == by.PodUID && c.Name == by.Name && c.Phase == arbiter.Created && !c.Sandbox {
			t.forget(id)
			delete(t.answers, id)
		}
	}
}

// create answers what to change in a container that is about to be made.
func (t *Tenants) create(e nri.Event, final bool) (Answer, error) {
	t.sandboxes[e.Pod.ID] = own(e.Pod)
	if t.pods[e.Pod.UID] == nil {
		if workload.MayPin(e.Pod.Labels, e.Pod.Annotations) && !final {
			return Answer{}, fmt.Errorf("%w: %s/%s", ErrUnknownPod, e.Pod.Namespace, e.Pod.Name)
		}
		t.early[e.Pod.UID] = t.earlyPod(e)
		t.arbiter.PutPod(t.provisional(e.Pod.UID))
	}
	t.made(e)
	t.arbiter.Now(time.Now())
	decided, err := t.arbiter.Create(e.Pod.UID, e.Container.Name, e.Container.ID)
	if err != nil {
		return Answer{}, fmt.Errorf("container %s of %s/%s: %w", e.Container.Name, e.Pod.Namespace, e.Pod.Name, err)
	}
	created := t.keep(t.containerOf(e.Pod, e.Container, arbiter.Created))
	t.supersede(created)
	if t.conflicts(e) {
		return Answer{}, nil
	}
	answer := t.answer(decided.Others)
	for _, w := range decided.Own {
		answer.Reply.Adjust = settings(w)
		t.gave(created, answer.Reply.Adjust)
		t.tries[try{e.Pod.UID, e.Container.Name}] = e.Container.ID
	}
	return answer, nil
}

// answer turns wishes for containers that exist into a reply.
func (t *Tenants) answer(wishes []arbiter.Wish) Answer {
	var a Answer
	for _, w := range wishes {
		a.Reply.Updates = append(a.Reply.Updates, nri.Change{ContainerID: w.ContainerID, Settings: settings(w)})
		c := t.containers[w.ContainerID]
		if c == nil {
			continue
		}
		t.gave(c, settings(w))
		if c.group != "" {
			a.Changes = append(a.Changes, t.want(c, w))
		}
	}
	return a
}

func settings(w arbiter.Wish) nri.Settings {
	return nri.Settings{CPUs: w.CPUs, Mems: w.Mems, NoQuota: w.NoQuota}
}

// update answers a change of resources that the kubelet asks for. What Berth set
// stays: a pod with exclusive CPUs runs without a quota. With an Obstacle, and where the
// update asks for CPUs, the answer is empty: it would replace what their owner asks for.
func (t *Tenants) update(e nri.Event) (Answer, error) {
	t.recorded(e)
	if t.pods[e.Pod.UID] == nil {
		return Answer{}, nil
	}
	decided, err := t.arbiter.Resize(e.Pod.UID)
	if err != nil {
		return Answer{}, fmt.Errorf("resize of %s/%s: %w", e.Pod.Namespace, e.Pod.Name, err)
	}
	asks, a := e.Requested.CPUs, t.answers[e.Container.ID]
	if t.Obstacle() != (Obstacle{}) || !asks.IsEmpty() && !slices.Contains(a.CPUs, asks) {
		return Answer{}, nil
	}
	wishes := decided.Others
	own := slices.ContainsFunc(decided.Own, func(w arbiter.Wish) bool { return w.ContainerID == e.Container.ID })
	if !own {
		for _, w := range t.arbiter.Wishes() {
			if w.ContainerID == e.Container.ID {
				wishes, own = append(wishes, w), true
			}
		}
	}
	answer := t.answer(append(wishes, decided.Own...))
	if c := t.containers[e.Container.ID]; !own && c != nil && c.ours && t.facts.Machine != nil {
		// The runtime writes all that it has on record: the CPUs that were left while
		// others were pinned, too. It cannot be told to forget them.
		all := nri.Settings{CPUs: t.facts.Machine.Topology().Online}
		answer.Reply.Updates = append(answer.Reply.Updates, nri.Change{ContainerID: c.ID, Settings: all})
		t.gave(c, all)
	}
	return answer, nil
}

// foreign remembers that another plugin sets CPU sets, which says more than the sets do.
func (t *Tenants) foreign(e nri.Event) {
	t.hasOwner(e.Container.ID, foreignOwner{Obstacle{Reason: "OtherNRIPlugin", Message: "the NRI plugin " + e.Owner + " sets CPU sets"}, true})
}
