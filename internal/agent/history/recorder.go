package history

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

const (
	// every is the minimum distance of samples.
	every = time.Second
	// mostHeld is the maximum of samples without workloads that are handed over at once. Each hand-over wakes a thread of
	// an idle agent.
	mostHeld = 10
)

// Recorder passes moments from a loop that must not wait to a History.
type Recorder struct {
	to *History
	// next is when the next sample is due. busy means that the last sample had workloads. Only Record uses them.
	next time.Duration
	busy bool
	// spare are empty lists, filled are lists that Run has not added yet.
	spare, filled chan batch
	lost          atomic.Int64

	mu sync.Mutex
	// held are the samples that Record has not handed over yet. Their list is one of the lists of spare and filled.
	held batch
}

// batch is some samples, the oldest first.
type batch []taken

// taken is one sample of all workloads.
type taken struct {
	at  time.Time
	all []capability.Moment
}

// NewRecorder returns a Recorder for a History.
func NewRecorder(to *History) *Recorder {
	const lists = 2 // Record fills one while Run adds the other
	r := &Recorder{to: to, spare: make(chan batch, lists), filled: make(chan batch, lists)}
	for range lists {
		r.spare <- nil
	}
	return r
}

// Record takes a sample of the moments of this second, if one is due. It hands the sample over at once if workloads are
// in it, or were in the last one. Other samples have only the node: up to mostHeld of them wait for each other. Record
// never waits: a sample is lost if Run has not added the earlier ones. One goroutine at a time may call it.
func (r *Recorder) Record(clock time.Duration, at time.Time, all []capability.Capability) {
	if clock < r.next {
		return
	}
	r.next = clock + every
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.held) == 0 {
		select {
		case r.held = <-r.spare:
		default:
			r.lost.Add(1)
			return
		}
	}
	sample := r.held.extend()
	sample.at, sample.all = at, sample.all[:0]
	before := r.busy
	r.busy = false
	for _, one := range all {
		if recorded, records := one.(capability.Recorded); records {
			recorded.Record(func(m capability.Moment) {
				sample.all = append(sample.all, m)
				r.busy = r.busy || m.Workload != node
			})
		}
	}
	if r.busy || before || len(r.held) == mostHeld {
		r.filled <- r.held // never blocks: there is room for all lists
		r.held = nil
	}
}

// extend adds a sample to the list, and returns it. It reuses the memory of an earlier sample.
func (b *batch) extend() *taken {
	last := len(*b)
	if last == cap(*b) {
		*b = append(*b, taken{})
	}
	*b = (*b)[:last+1]
	return &(*b)[last]
}

// Run adds the samples that Record hands over, until ctx ends. A slow disk delays only Run.
func (r *Recorder) Run(ctx context.Context) error {
	r.to.open()
	for {
		select {
		case <-ctx.Done():
			for _, b := range r.rest() {
				r.add(b)
			}
			if err := r.to.close(); err != nil {
				r.to.opts.Log.Warn("history", "error", err) // the shutdown goes on
			}
			return nil
		case b := <-r.filled:
			r.add(b)
			r.spare <- b[:0]
		}
	}
}

// rest returns the samples that Run has not added yet.
func (r *Recorder) rest() []batch {
	r.mu.Lock()
	defer r.mu.Unlock()
	var all []batch
	for len(r.filled) > 0 { // only Run receives from it
		all = append(all, <-r.filled)
	}
	all, r.held = append(all, r.held), nil
	return all
}

func (r *Recorder) add(b batch) {
	for i := range b {
		r.to.Add(b[i].at, b[i].all)
	}
}

// Lost returns how many samples were lost.
func (r *Recorder) Lost() int64 { return r.lost.Load() }
