package history

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// every is the minimum distance of samples.
const every = time.Second

// Recorder passes moments from a loop that must not wait to a History.
type Recorder struct {
	to *History
	// next is when the next sample is due. Only Record uses it.
	next time.Duration
	// spare are empty lists, filled are lists that Run has not added yet.
	spare, filled chan batch
	lost          atomic.Int64
}

// batch is one sample of all workloads.
type batch struct {
	at  time.Time
	all []capability.Moment
}

// NewRecorder returns a Recorder for a History.
func NewRecorder(to *History) *Recorder {
	const lists = 2 // Record fills one while Run adds the other
	r := &Recorder{to: to, spare: make(chan batch, lists), filled: make(chan batch, lists)}
	for range lists {
		r.spare <- batch{}
	}
	return r
}

// Record hands over the moments of this second, if a sample is due. It never waits: a sample is lost if Run has not
// added the earlier ones. One goroutine at a time may call it.
func (r *Recorder) Record(clock time.Duration, at time.Time, all []capability.Capability) {
	if clock < r.next {
		return
	}
	r.next = clock + every
	var b batch
	select {
	case b = <-r.spare:
	default:
		r.lost.Add(1)
		return
	}
	b.at, b.all = at, b.all[:0]
	for _, one := range all {
		if recorded, records := one.(capability.Recorded); records {
			recorded.Record(func(m capability.Moment) { b.all = append(b.all, m) })
		}
	}
	r.filled <- b // never blocks: there is room for all lists
}

// Run adds the samples that Record hands over, until ctx ends. A slow disk delays only Run.
func (r *Recorder) Run(ctx context.Context) error {
	r.to.open()
	for {
		select {
		case <-ctx.Done():
			if err := r.to.close(); err != nil {
				r.to.opts.Log.Warn("history", "error", err) // the shutdown goes on
			}
			return nil
		case b := <-r.filled:
			r.to.Add(b.at, b.all)
			r.spare <- b
		}
	}
}

// Lost returns how many samples were lost.
func (r *Recorder) Lost() int64 { return r.lost.Load() }
