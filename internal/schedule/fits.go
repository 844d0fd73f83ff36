package schedule

import (
	"sync"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
)

// mostFits bounds how many answers are remembered before all are forgotten.
const mostFits = 256

// fits remembers whether an empty node would take pods of a shape. That depends
// on the machine and the labels, which thousands of nodes share. The zero value
// is ready for use.
type fits struct {
	mu    sync.Mutex
	known map[fitsKey]bool
}

type fitsKey struct {
	machine     *alloc.Machine
	policy      placement.NodePolicy
	allocatable int64
	shape       string
}

// emptyWouldDo says whether the node would take the pod if nothing ran there.
func (f *fits) emptyWouldDo(b *bench, where placement.Node, ask *placement.Ask) bool {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, ask.Shape}
	f.mu.Lock()
	defer f.mu.Unlock()
	if fit, found := f.known[key]; found {
		return fit
	}
	if f.known == nil || len(f.known) >= mostFits {
		f.known = make(map[fitsKey]bool, mostFits)
	}
	fit := placement.EmptyWouldDo(&b.scratch, where, ask)
	f.known[key] = fit
	return fit
}
