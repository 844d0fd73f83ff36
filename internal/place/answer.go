package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/cpuset"
	"github.com/berth-project/berth/internal/workload"
)

// Create says that the runtime is about to create a container, and returns what
// has to be done first. Until Observe reports the container, it counts as one that
// has what was answered. A pod that requires CPUs which it cannot have, or that has to
// wait for those of a pod that leaves, is ErrRefused, one that was never put
// ErrUnknownPod.
func (n *Node) Create(podUID, name, id string) (Answer, error) {
	p := n.pods[podUID]
	if p == nil || !p.known {
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w", name, podUID, ErrUnknownPod)
	}
	n.Observe(Container{ID: id, PodUID: podUID, Name: name})
	c := p.container(id)
	c.seen = false
	n.settle()
	if (p.wait || p.behind) && p.grant == nil && p.kind(c) != other {
		n.Remove(id)
		if p.behind && p.until == 0 {
			p.until = n.now + mostWait
		}
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w: %s", name, p.key(), ErrRefused, p.denied)
	}
	var a Answer
	if d, found := n.desired(p, c); found {
		a.Own = append(a.Own, d)
		c.answered(d)
	}
	a.Others = n.narrow(func(other *container) bool { return other == c })
	return a, nil
}

// Resize says that the limits of the pod, as last put, count from now on: the
// runtime is about to set them, or did. The pod keeps the CPUs it has as far as
// that is possible; where there is no room for more it keeps what it has, and an event
// says so. A pod that was never put is ErrUnknownPod.
func (n *Node) Resize(podUID string) (Answer, error) {
	p := n.pods[podUID]
	if p == nil || !p.known {
		return Answer{}, fmt.Errorf("resize pod %s: %w", podUID, ErrUnknownPod)
	}
	n.settle()
	if p.grant != nil {
		n.adoptLimits(p)
	}
	n.stale, p.pending = true, true
	n.settle()
	var a Answer
	for _, c := range p.containers {
		if d, found := n.desired(p, c); found && c.CPUs != d.CPUs {
			a.Own = append(a.Own, d)
			c.answered(d)
		}
	}
	a.Others = n.narrow(func(other *container) bool { return p.container(other.ID) == other })
	return a, nil
}

// adoptLimits makes the pod ask for what its limits say now. A container whose
// limit is no whole number any more keeps what it has.
func (n *Node) adoptLimits(p *pod) {
	old, next := p.pin, p.next
	if !next.Wanted {
		n.report(p, v1alpha1.EventCPUPinFailed, true, "the new limits cannot be followed: "+lines(p.problems)+"; it keeps "+p.grant.list())
		return
	}
	next.Pinned, next.Others = append([]workload.PinnedContainer(nil), next.Pinned...), append([]workload.PinnedContainer(nil), next.Others...)
	for i := 0; i < len(next.Others); {
		c := next.Others[i]
		has := p.grant.parts[c.Name].cpus.Size()
		if has == 0 {
			i++
			continue
		}
		n.report(p, v1alpha1.EventCPUPinFailed, true, fmt.Sprintf("the new limit of container %s, %s, is no whole number: it keeps CPUs %s",
			c.Name, thousandths(c.Limit), p.grant.parts[c.Name].cpus))
		c.CPUs, c.Limit = has, int64(has)*milli
		next.Pinned, next.Others = append(next.Pinned, c), append(next.Others[:i], next.Others[i+1:]...)
	}
	p.count(next)
	p.resized = &old
}

// answered notes that a container has what it was answered, until Observe reports it.
func (c *container) answered(d Desired) { c.CPUs, c.verified = d.CPUs, false }

// narrow returns what is desired for all containers, except some, that have, or may
// have, CPUs they should not. The runtime writes them in this order: whoever leaves a CPU comes
// before whoever takes it.
func (n *Node) narrow(but func(*container) bool) []Desired {
	var desired []Desired
	var come []arrival
	n.each(func(p *pod, c *container) {
		if but(c) {
			return
		}
		d, found := n.desired(p, c)
		if !found || !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(d.CPUs) {
			return
		}
		d.CPUs = n.less(c.CPUs, d.CPUs)
		if c.CPUs.IsEmpty() || d.CPUs.IsSubsetOf(c.CPUs) {
			desired = append(desired, d)
		} else {
			come = append(come, arrival{d, c.CPUs})
		}
		c.answered(d)
	})
	return append(desired, inTurn(come)...)
}

// arrival is a container that takes CPUs in an answer, and what it has before.
type arrival struct {
	Desired
	has cpuset.Set
}

// inTurn puts containers behind those that are still on the CPUs that they take. Of two that
// exchange theirs none can wait for the other one.
func inTurn(come []arrival) []Desired {
	ordered := make([]Desired, 0, len(come))
	for len(come) > 0 {
		next := max(0, slices.IndexFunc(come, func(one arrival) bool {
			taken := one.CPUs.Difference(one.has)
			return !slices.ContainsFunc(come, func(other arrival) bool {
				return other.ContainerID != one.ContainerID && other.has.Difference(other.CPUs).Intersects(taken)
			})
		}))
		ordered = append(ordered, come[next].Desired)
		come = slices.Delete(come, next, next+1)
	}
	return ordered
}
