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
	known map[fitsKey]string
}

type fitsKey struct {
	machine     *alloc.Machine
	policy      placement.NodePolicy
	allocatable int64
	shape       string
}

// never returns why the node would refuse the pod also if nothing ran there, ""
// where it would take it.
func (f *fits) never(b *bench, where placement.Node, ask *placement.Ask) string {
	key := fitsKey{where.Machine, where.Policy, where.AllocatableMilli, ask.Shape}
	f.mu.Lock()
	defer f.mu.Unlock()
	if why, found := f.known[key]; found {
		return why
	}
	if f.known == nil || len(f.known) >= mostFits {
		f.known = make(map[fitsKey]string, mostFits)
	}
	why := placement.Never(&b.scratch, where, ask).String()
	f.known[key] = why
	return why
}
