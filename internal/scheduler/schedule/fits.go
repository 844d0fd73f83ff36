package schedule

import (
	"sync"
	"unique"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
)

// mostFits bounds how many answers are remembered before all are forgotten.
const mostFits = 1024

// fits remembers whether and why an empty node would refuse pods of a shape. That depends on the machine and the
// labels, which thousands of nodes share. The zero value is ready for use, and safe for concurrent use.
type fits struct {
	mu    sync.Mutex
	known map[fitsKey]never
}

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
func (f *fits) never(b *bench, where placement.Node, cy *cycle) never {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, cy.shape}
	if why, found := f.find(key); found {
		return why
	}
	refused := placement.Never(&b.scratch, where, cy.ask)
	why := never{text: refused.Reason(), reason: refusedBySize}
	if refused.Permanent() {
		why.reason = reasonOf(refused)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.known == nil || len(f.known) >= mostFits {
		f.known = map[fitsKey]never{}
	}
	f.known[key] = why
	return why
}

func (f *fits) find(key fitsKey) (never, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	why, found := f.known[key]
	return why, found
}
