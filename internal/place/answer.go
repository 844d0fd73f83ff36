package place

import (
	"fmt"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/workload"
)

// Create says that the runtime is about to create a container, and returns what
// has to be done first. Until somebody sees it, the container counts as one that
// has what was answered. A pod that requires CPUs which it cannot have, or that
// shall wait for those of a pod that leaves, is ErrRefused, one that was never put
// ErrUnknownPod.
func (n *Node) Create(podUID, name, id string) (Answer, error) {
	t := n.tenants[podUID]
	if t == nil || !t.known {
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w", name, podUID, ErrUnknownPod)
	}
	n.Observe(Container{ID: id, PodUID: podUID, Name: name})
	c := t.container(id)
	c.seen = false
	n.settle()
	if (t.wait || t.behind) && t.grant == nil && t.kind(c) != other {
		n.Remove(id)
		if t.behind && t.since.IsZero() {
			t.since = n.now
		}
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w: %s", name, t.key(), ErrRefused, t.denied)
	}
	var a Answer
	if w, found := n.wish(t, c); found {
		a.Own = append(a.Own, w)
		c.answered(w)
	}
	a.Others = n.narrow(func(other *member) bool { return other == c })
	return a, nil
}

// Resize says that the limits of the pod, as last put, count from now on: the
// runtime is about to set them, or did. The pod keeps the CPUs it has as far as
// that is possible; where there is no room for more it keeps what it has, which
// is news. A pod that was never put is ErrUnknownPod.
func (n *Node) Resize(podUID string) (Answer, error) {
	t := n.tenants[podUID]
	if t == nil || !t.known {
		return Answer{}, fmt.Errorf("resize pod %s: %w", podUID, ErrUnknownPod)
	}
	n.settle()
	if t.grant != nil {
		n.adoptLimits(t)
	}
	n.stale, t.pending = true, true
	n.settle()
	var a Answer
	for _, c := range t.containers {
		if w, found := n.wish(t, c); found && c.CPUs != w.CPUs {
			a.Own = append(a.Own, w)
			c.answered(w)
		}
	}
	a.Others = n.narrow(func(other *member) bool { return t.container(other.ID) == other })
	return a, nil
}

// adoptLimits makes the pod ask for what its limits say now. A container whose
// limit is no whole number any more keeps what it has.
func (n *Node) adoptLimits(t *tenant) {
	old, next := t.pin, t.next
	if !next.Wanted {
		n.tell(t, v1alpha1.EventCPUPinFailed, true, "the new limits cannot be followed: "+lines(t.problems)+"; it keeps "+t.grant.list())
		return
	}
	next.Pinned, next.Others = append([]workload.PinnedContainer(nil), next.Pinned...), append([]workload.PinnedContainer(nil), next.Others...)
	for i := 0; i < len(next.Others); {
		c := next.Others[i]
		has := t.grant.parts[c.Name].cpus.Size()
		if has == 0 {
			i++
			continue
		}
		n.tell(t, v1alpha1.EventCPUPinFailed, true, fmt.Sprintf("the new limit of container %s, %s, is no whole number: it keeps CPUs %s",
			c.Name, thousandths(c.Limit), t.grant.parts[c.Name].cpus))
		c.CPUs, c.Limit = has, int64(has)*milli
		next.Pinned, next.Others = append(next.Pinned, c), append(next.Others[:i], next.Others[i+1:]...)
	}
	t.pin, t.ask, t.resized = next, nil, &old
}

// answered notes that a container has what it was answered, until somebody looks.
func (c *member) answered(w Wish) { c.CPUs, c.verified = w.CPUs, false }

// narrow returns the wishes of all containers but some that have, or may have,
// CPUs they should not.
func (n *Node) narrow(but func(*member) bool) []Wish {
	var wishes []Wish
	n.each(func(t *tenant, c *member) {
		if but(c) {
			return
		}
		w, found := n.wish(t, c)
		if found && (c.CPUs.IsEmpty() || !c.CPUs.IsSubsetOf(w.CPUs)) {
			wishes = append(wishes, w)
			c.answered(w)
		}
	})
	return wishes
}
