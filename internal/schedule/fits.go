package schedule

import (
	"sync"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// mostFits bounds how many answers are remembered before all are forgotten.
const mostFits = 256

// fits remembers why an empty node would refuse pods of a shape, if it would.
// That depends on the machine and the labels, which thousands of nodes share.
// The zero value is ready for use.
type fits struct {
	mu    sync.Mutex
	known map[fitsKey]never
}

type fitsKey struct {
	machine     *alloc.Machine
	policy      placement.NodePolicy
	allocatable int64
	shape       string
}

// never is why a node would refuse a pod also if nothing ran there.
type never struct {
	// text is "" where it would take it.
	text   string
	reason refusal
}

// never returns what a node would say if nothing ran there.
func (f *fits) never(b *bench, where placement.Node, ask *placement.Ask) never {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, ask.Shape}
	f.mu.Lock()
	defer f.mu.Unlock()
	if why, found := f.known[key]; found {
		return why
	}
	if f.known == nil || len(f.known) >= mostFits {
		f.known = make(map[fitsKey]never, mostFits)
	}
	refused := placement.Never(&b.scratch, where, ask)
	why := never{text: refused.String(), reason: refusedBySize}
	if refused.Permanent() {
		why.reason = reasonOf(refused)
	}
	f.known[key] = why
	return why
}
