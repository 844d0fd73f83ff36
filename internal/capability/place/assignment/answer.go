package assignment

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/node/nri"
)

// Answer is the answer to the runtime, and what it changes in existing groups.
type Answer struct {
	Reply nri.Reply
	// Changes are the effects of the reply on existing groups: the runtime writes them, and the journal must have them
	// first.
	Changes []place.Desired
}

// Handle passes one event of the runtime to the Inventory, and returns the answer. final means that the runtime can wait
// no longer for an unknown pod. Otherwise a container of an unknown pod that asks for CPUs returns
// inventory.ErrUnknownPod, and nothing changes. A pod that requires CPUs which it cannot have, or which a leaving pod
// still has, returns place.ErrRefused.
func (a *Assignment) Handle(e nri.Event, final bool) (Answer, error) {
	if e.Kind == nri.Create {
		return a.create(e, final)
	}
	a.inventory.Observe(e)
	if e.Kind == nri.Update {
		return a.update(e, final)
	}
	return Answer{}, nil
}

// create returns the answer for a container that is about to be made.
func (a *Assignment) create(e nri.Event, final bool) (Answer, error) {
	if err := a.inventory.Creating(e, final); err != nil {
		return Answer{}, err
	}
	a.learn()
	decided, err := a.node.Create(e.Pod.UID, e.Container.Name, e.Container.ID)
	if err != nil {
		return Answer{}, fmt.Errorf("container %s of %s/%s: %w", e.Container.Name, e.Pod.Namespace, e.Pod.Name, err)
	}
	if !a.inventory.Created(e) {
		return Answer{}, nil
	}
	answer := a.answer(decided.Others)
	if !a.inventory.Takes(e.Container.ID) {
		return answer, nil // if two plugins set the same value, the runtime accepts neither
	}
	for _, d := range decided.Own {
		answer.Reply.Adjust = settings(d)
		a.inventory.Containers().Made(e, answer.Reply.Adjust)
	}
	return answer, nil
}

// answer makes a reply from the desired state of existing containers. It does not change existing memory nodes. The
// kernel rebinds memory policies and visits each thread before the runtime's write ends (update_tasks_nodemask in
// kernel/cgroup/cpuset.c), while the runtime waits. The next pass changes them after a check of the group.
//
// A container gets no answer if another owner set its values, or if its shim does not answer the runtime. The next pass
// restricts the group of such a container itself.
func (a *Assignment) answer(desired []place.Desired) Answer {
	var answer Answer
	for _, d := range desired {
		if !a.inventory.Takes(d.ContainerID) {
			continue
		}
		if !d.Mems.IsEmpty() {
			if has := a.inventory.Containers().MemsOf(d.ContainerID); !has.IsEmpty() {
				d.Mems = has
			}
		}
		answer.Reply.Updates = append(answer.Reply.Updates, nri.Change{ContainerID: d.ContainerID, Settings: settings(d)})
		a.inventory.Containers().Remember(d.ContainerID, settings(d))
		if a.join(&d) {
			answer.Changes = append(answer.Changes, d)
		}
	}
	return answer
}

func settings(d place.Desired) nri.Settings {
	return nri.Settings{CPUs: d.CPUs, Mems: d.Mems, NoQuota: d.NoQuota}
}

// update answers a change of resources that the kubelet requests. Berth's values stay: a pod with exclusive CPUs runs
// without a quota. If another program sets CPU sets, or the update requests CPUs that Berth never answered, the answer
// is empty: it would replace the owner's request.
func (a *Assignment) update(e nri.Event, final bool) (Answer, error) {
	p := a.inventory.Pods.Pod(e.Pod.UID)
	if p == nil {
		return Answer{}, nil
	}
	decided, err := a.resize(p, e, final)
	if err != nil {
		return Answer{}, fmt.Errorf("resize of %s/%s: %w", e.Pod.Namespace, e.Pod.Name, err)
	}
	id, asks := e.Container.ID, e.Requested.CPUs
	if !a.inventory.Heals() || !asks.IsEmpty() && !slices.Contains(a.inventory.Containers().Answered(id).CPUs, asks) {
		return Answer{}, nil
	}
	desired := decided.Others
	own := slices.ContainsFunc(decided.Own, func(d place.Desired) bool { return d.ContainerID == id })
	if !own {
		a.learn()
		if d, found := a.node.DesiredFor(id); found {
			desired, own = append(desired, d), true
		}
	}
	answer := a.answer(append(desired, decided.Own...))
	if _, answered := a.inventory.Containers().GroupOf(id); !own && answered {
		// The runtime writes its whole record. That includes the few CPUs that this container had while others were
		// pinned, and NRI cannot make the runtime forget them.
		all := nri.Settings{CPUs: a.inventory.Topology().Online}
		answer.Reply.Updates = append(answer.Reply.Updates, nri.Change{ContainerID: id, Settings: all})
		a.inventory.Containers().Remember(id, all)
	}
	return answer, nil
}
