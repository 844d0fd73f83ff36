package reconcile

import "time"

const (
	// firstRetry is how soon something that failed is tried again.
	firstRetry = time.Second
	// LastRetry bounds how late it is tried again.
	LastRetry = 30 * time.Second
	// LastLowering does so on the way back to a limit: use above the limit must not
	// outlive by long what stood in the way, such as a full disk.
	LastLowering = 4 * time.Second
)

// Retry says when something that failed may be tried again: after a second, and after
// twice as long each time. The zero value is something that did not fail. It is set to
// that when a try succeeds.
type Retry struct{ at, wait time.Duration }

// Failed holds the next try back, from firstRetry up to most.
func (r *Retry) Failed(now, most time.Duration) {
	r.wait = min(max(2*r.wait, firstRetry), most)
	r.at = now + r.wait
}

// Held says that it is too early for the next try.
func (r Retry) Held(now time.Duration) bool { return now < r.at }

// At is when the next try is due.
func (r Retry) At() time.Duration { return r.at }

// Again says that the last try failed.
func (r Retry) Again() bool { return r.wait > 0 }
