package place

import (
	"fmt"
	"slices"

	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Create is called when the runtime is about to create a container, and returns what has to be done first. Until
// Observe reports the container, the Node assumes that it has the CPUs of the answer. The error is ErrRefused for a pod
// that requires CPUs which it cannot have, or must wait for the CPUs of a pod that leaves. It is ErrUnknownPod for a
// pod that was never put.
func (n *Node) Create(podUID, name, id string) (Answer, error) {
	p := n.Pods.pods[podUID]
	if p == nil || !p.known {
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w", name, podUID, ErrUnknownPod)
	}
	n.Pods.Observe(observed.Container{ID: id, PodUID: podUID, Name: name})
	c := p.container(id)
	c.seen = false
	n.settleToAnswer()
	if (p.has.wait || p.has.behind) && p.has.grant == nil && p.kind(c) != other {
		n.Pods.Remove(id)
		if p.has.behind && p.has.until == 0 {
			p.has.until = n.now + mostWait
		}
		return Answer{}, fmt.Errorf("create container %s of pod %s: %w: %s", name, p.key(), ErrRefused, p.has.denied)
	}
	var a Answer
	if d, found := n.outcome.desired(p, c); found {
		a.Own = append(a.Own, d)
		c.answered(d)
	}
	a.Others = n.narrow(func(other *container) bool { return other == c })
	return a, nil
}

// Resize makes the limits of the pod, as last put, take effect: the runtime is about to set them. The pod keeps its
// CPUs as far as possible; where there is no room for more it keeps what it has, and an event says so. The error is
// ErrUnknownPod for a pod that was never put.
func (n *Node) Resize(podUID string) (Answer, error) {
	p := n.Pods.pods[podUID]
	if p == nil || !p.known {
		return Answer{}, fmt.Errorf("resize pod %s: %w", podUID, ErrUnknownPod)
	}
	n.settleToAnswer()
	n.adoptLimits(p)
	n.Pods.stale, p.pending = true, true
	n.settleToAnswer()
	var a Answer
	for _, c := range p.containers {
		if d, found := n.outcome.desired(p, c); found && c.CPUs != d.CPUs {
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

// answered assumes that a container has the CPUs of its answer, until Observe reports it.
func (c *container) answered(d Desired) {
	c.CPUs, c.Pinned, c.verified = d.CPUs, c.Pinned && d.Pinned, false
}

// narrow returns the desired state of all containers that have, or may have, CPUs that they should not have, except
// containers for which but returns true. The runtime writes them in this order: a container that leaves a CPU comes
// before a container that gets it.
func (n *Node) narrow(but func(*container) bool) []Desired {
	var desired []Desired
	var come []arrival
	n.Pods.each(func(p *pod, c *container) {
		if but(c) {
			return
		}
		d, found := n.outcome.desired(p, c)
		if !found || !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(d.CPUs) {
			return
		}
		d.CPUs = n.outcome.pool.Less(c.CPUs, d.CPUs)
		if c.CPUs.IsEmpty() || d.CPUs.IsSubsetOf(c.CPUs) {
			desired = append(desired, d)
		} else {
			come = append(come, arrival{d, c.CPUs})
		}
		c.answered(d)
	})
	return append(desired, inTurn(come)...)
}

// arrival is a container that gets CPUs in an answer, and its CPUs before.
type arrival struct {
	Desired
	has cpuset.Set
}

// inTurn orders containers after the containers that still have the CPUs that they get. Of two containers that exchange
// CPUs, neither can wait for the other.
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
