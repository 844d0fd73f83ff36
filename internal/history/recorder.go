package history

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/capability"
)

// every is how far apart samples are at least.
const every = time.Second

// Recorder takes moments from a loop that does not wait for it into a History.
type Recorder struct {
	to *History
	// next is when the next sample is due. Only Record has it.
	next time.Duration
	// spare are lists to be filled, filled those to be taken.
	spare, filled chan batch
	lost          atomic.Int64
}

// batch is one sample of all workloads.
type batch struct {
	at  time.Time
	all []capability.Moment
}

// NewRecorder returns a Recorder into a History.
func NewRecorder(to *History) *Recorder {
	const lists = 2 // one is filled while the other is taken
	r := &Recorder{to: to, spare: make(chan batch, lists), filled: make(chan batch, lists)}
	for range lists {
		r.spare <- batch{}
	}
	return r
}

// Record hands over the moments of this second, if one is due. It waits for nothing: a sample is
// lost while the ones before are not taken. One goroutine at a time calls it.
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
	r.filled <- b // there is room for all lists
}

// Run takes what is handed over until ctx ends. A disk that is slow delays no one else.
func (r *Recorder) Run(ctx context.Context) error {
	r.to.open()
	for {
		select {
		case <-ctx.Done():
			if err := r.to.close(); err != nil {
				r.to.opts.Log.Warn("history", "error", err) // all else ends well
			}
			return nil
		case b := <-r.filled:
			r.to.Add(b.at, b.all)
			r.spare <- b
		}
	}
}

// Lost is how many samples were lost.
func (r *Recorder) Lost() int64 { return r.lost.Load() }
