package schedule

import (
	"sync"
	"sync/atomic"
	"unique"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// mostFits bounds how many answers are remembered before all are forgotten.
const mostFits = 1024

// fits remembers why an empty node would refuse pods of a shape, if it would.
// That depends on the machine and the labels, which thousands of nodes share.
// The zero value is ready for use, and safe for concurrent use.
type fits struct {
	// known maps fitsKey to never, about size of them.
	known sync.Map
	size  atomic.Int64
}

type fitsKey struct {
	machine     *alloc.Machine
	policy      placement.NodePolicy
	allocatable int64
	shape       unique.Handle[string]
}

// never is why a node would refuse a pod also if nothing ran there.
type never struct {
	// text is "" where it would take it.
	text   string
	reason refusal
}

// never returns what a node would say if nothing ran there. Two that ask at the
// same time may both work it out.
func (f *fits) never(b *bench, where placement.Node, cy *cycle) never {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, cy.shape}
	if known, found := f.known.Load(key); found {
		why, _ := known.(never)
		return why
	}
	refused := placement.Never(&b.scratch, where, cy.ask)
	why := never{text: refused.Reason(), reason: refusedBySize}
	if refused.Permanent() {
		why.reason = reasonOf(refused)
	}
	if f.size.Add(1) > mostFits {
		f.known.Clear()
		f.size.Store(1)
	}
	f.known.Store(key, why)
	return why
}
