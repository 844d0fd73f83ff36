package schedule

import (
	"unique"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// mostFits bounds how many answers are remembered before all are forgotten.
const mostFits = 1024

// fitsKey is all that an empty node's answer depends on. Thousands of nodes share a machine and labels.
type fitsKey struct {
	machine     *alloc.Machine
	policy      placement.NodePolicy
	allocatable int64
	shape       unique.Handle[string]
}

// never is why a node would refuse a pod even if nothing ran there.
type never struct {
	// text is "" if the node would take the pod.
	text   string
	reason refusal
}

// never returns the answer of the empty node. Two concurrent callers may both compute it.
func (a *answers) never(b *bench, where placement.Node, cy *cycle) never {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, cy.shape}
	a.mu.Lock()
	why, found := a.empty[key]
	a.mu.Unlock()
	if found {
		return why
	}
	refused := placement.Never(&b.scratch, where, cy.ask)
	why = never{text: refused.Reason(), reason: refusedBySize}
	if refused.Permanent() {
		why.reason = reasonOf(refused)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.empty == nil || len(a.empty) >= mostFits {
		a.empty = map[fitsKey]never{}
	}
	a.empty[key] = why
	return why
}
