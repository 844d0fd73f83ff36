package schedule

import (
	"context"
	"fmt"
	"time"
	"unique"

	v1 "k8s.io/api/core/v1"
	fwk "k8s.io/kube-scheduler/framework"

	"github.com/berth-project/berth/internal/capability/place/placement"
)

const (
	// mostShort bounds how many nodes that refuse a pod are asked what they lack.
	mostShort = 64
	// shortKept is how long the answer is remembered, for the pod and for other pods of the same shape.
	shortKept = 10 * time.Second
)

// shortages tracks the pods that wait because of fragmentation. The zero value is ready for use, and safe for
// concurrent use.
type shortages struct {
	notes[shortage]
	// last is the latest result, for pods of the same shape.
	last shortage
}

// shortage is what a pod lacks on the node that lacks least for it.
type shortage struct {
	placement.Shortage
	node  string
	shape unique.Handle[string]
	at    time.Time
}

// PostFilter reports whether a pod that no node takes waits because of fragmentation: a node has enough free CPUs, but
// not where the pod needs them. Kube-scheduler writes this report into the pod's condition PodScheduled. PostFilter
// never helps the pod.
func (p *Plugin) PostFilter(_ context.Context, state fwk.CycleState, pod *v1.Pod, said fwk.NodeToStatusReader) (*fwk.PostFilterResult, *fwk.Status) {
	cy := cycleOf(state)
	if cy == nil || cy.narrowed {
		return nil, fwk.NewStatus(fwk.Unschedulable) // narrowed: the next cycle sees all nodes
	}
	if cy.ask == nil || refusal(cy.refused.Load())&refusedByCPUs == 0 {
		p.core.shortages.forget(pod.UID)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	s, known := p.core.shortages.recall(cy, said)
	if !known {
		var short []candidate
		s, short = p.core.shortest(cy, said)
		p.core.plan(short, pod, p.handle)
	}
	if s.node == "" {
		p.core.shortages.forget(pod.UID)
		return nil, fwk.NewStatus(fwk.Unschedulable)
	}
	p.core.shortages.note(pod, s)
	return nil, fwk.NewStatus(fwk.Unschedulable, fmt.Sprintf("pending by fragmentation: node %s has %s", s.node, s.Shortage))
}

// shortest finds the node that lacks least for the pod, among nodes that this plugin refuses and that could take the
// pod. found has no node if no node lacks only the right places. short has all nodes that do.
func (c *core) shortest(cy *cycle, said fwk.NodeToStatusReader) (found shortage, short []candidate) {
	found = shortage{shape: cy.shape, at: time.Now()}
	infos, err := said.NodesForStatusCode(c.handle.SnapshotSharedLister().NodeInfos(), fwk.Unschedulable)
	if err != nil {
		return found, nil // does not happen: the framework passes nodes of its own lister
	}
	plain, asked := *cy, 0
	plain.claimed = nil // devices never refuse a node, and answers without them are remembered
	for _, info := range infos {
		name := info.Node().Name
		n := c.nodes.at(info)
		if n == nil || said.Get(name).Plugin() != Name {
			continue
		}
		if asked++; asked > mostShort {
			break
		}
		v := view{info: info, cy: &plain}
		r := c.answers.recalled(n, v)
		if r.short == nil {
			continue
		}
		short = append(short, candidate{n, v, r})
		if found.node == "" || r.short.Missing < found.Missing {
			found.Shortage, found.node = *r.short, name
		}
	}
	return found, short
}

// recalled returns a node's answer to the pod. The answer of Filter in this cycle is mostly still remembered, also
// without a shortage, so that a waiting pod costs no second decision.
func (a *answers) recalled(n *node, v view) *result {
	if r := n.peek(v.cy.moment(v.info), v.cy); r != nil {
		return r
	}
	return a.resultOf(n, v)
}

// recall returns a recent result for the pod, or for another pod that asks for the same, if the node still refuses.
func (s *shortages) recall(cy *cycle, said fwk.NodeToStatusReader) (shortage, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, known := range []shortage{s.pods[cy.uid].of, s.last} {
		if known.node == "" || known.shape != cy.shape || time.Since(known.at) > shortKept {
			continue
		}
		if status := said.Get(known.node); status.Code() == fwk.Unschedulable && status.Plugin() == Name {
			return known, true
		}
	}
	return shortage{}, false
}

// note remembers what a pod lacks.
func (s *shortages) note(pod *v1.Pod, short shortage) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.put(pod, short)
	s.last = short
}

// fragmented counts the pods that wait for the same constraint, and the CPUs that they lack together.
type fragmented struct{ pods, cpus int }

// count returns these counts by constraint.
func (s *shortages) count() map[placement.Constraint]fragmented {
	s.mu.Lock()
	defer s.mu.Unlock()
	counts := map[placement.Constraint]fragmented{}
	for _, one := range s.pods {
		c := counts[one.of.Constraint]
		counts[one.of.Constraint] = fragmented{pods: c.pods + 1, cpus: c.cpus + one.of.Missing}
	}
	return counts
}
