package reconcile

import "time"

const (
	// firstRetry is the delay of the first retry.
	firstRetry = time.Second
	// LastRetry bounds the delay of a retry.
	LastRetry = 30 * time.Second
	// LastLowering bounds the delay while a limit is being restored. Use above the limit must not outlast the obstacle,
	// such as a full disk, by much.
	LastLowering = 4 * time.Second
)

// Retry says when a failed action may be tried again: after a second, then after twice as long each time. The zero
// value means no failure; callers set it when a try succeeds.
type Retry struct{ at, wait time.Duration }

// Failed delays the next try, by firstRetry at first and most at last.
func (r *Retry) Failed(now, most time.Duration) {
	r.wait = min(max(2*r.wait, firstRetry), most)
	r.at = now + r.wait
}

// Held reports whether it is too early for the next try.
func (r Retry) Held(now time.Duration) bool { return now < r.at }

// At returns when the next try is due.
func (r Retry) At() time.Duration { return r.at }

// Again reports whether the last try failed.
func (r Retry) Again() bool { return r.wait > 0 }
