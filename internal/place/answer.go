package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/cpuset"
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
	n.settleToAnswer()
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
// runtime is about to set them. The pod keeps the CPUs it has as far as
// that is possible; where there is no room for more it keeps what it has, and an event
// says so. A pod that was never put is ErrUnknownPod.
func (n *Node) Resize(podUID string) (Answer, error) {
	p := n.pods[podUID]
	if p == nil || !p.known {
		return Answer{}, fmt.Errorf("resize pod %s: %w", podUID, ErrUnknownPod)
	}
	n.settleToAnswer()
	n.adoptLimits(p)
	n.stale, p.pending = true, true
	n.settleToAnswer()
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

// settleToAnswer is settle for an answer to the runtime.
func (n *Node) settleToAnswer() {
	n.answering = true
	n.settle()
	n.answering = false
}

// answered notes that a container has what it was answered, until Observe reports it.
func (c *container) answered(d Desired) {
	c.CPUs, c.Pinned, c.verified = d.CPUs, c.Pinned && d.Pinned, false
}

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
		d.CPUs = n.pool.Less(c.CPUs, d.CPUs)
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
