package lending

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// firstPause is how long a throttled group has its reserved CPUs only. It doubles each time the group is throttled
	// on borrowed CPUs, up to longestPause.
	firstPause, longestPause = time.Minute, 10 * time.Minute
	// lastingThreads is how long a group's highest number of threads stays in effect, so that a pool of threads that
	// shrinks and grows does not change the width.
	lastingThreads = time.Minute
)

// Claim is one observation of a group that borrows CPUs in addition to its reserved ones.
type Claim struct {
	// Reserved is how many CPUs are reserved for it, its limit rounded up.
	Reserved int
	// Limit is what its quota grants, in CPUs.
	Limit unit.CPUs
	// Threads is its number of threads, 0 if unknown: then they do not limit the width.
	Threads int
	// Throttled counts the periods in which its quota ran out, since the group was made.
	Throttled uint64
}

// most returns twice the limit in whole CPUs, and at least Reserved.
func (c Claim) most() int {
	twice := math.Floor(2*float64(c.Limit) + 1e-6) // a limit is in thousandths, and 2 x 1.5 is 3
	if !(twice < math.MaxInt32) {
		return math.MaxInt32
	}
	return max(c.Reserved, int(twice))
}

// Width is how many CPUs a group should have, reserved ones included.
type Width struct {
	CPUs int
	// Why is the reason. It changes only when the reason changes.
	Why string
}

// Borrowing is the state of one group between observations. The zero value is the state before the first one.
type Borrowing struct {
	looked    bool
	throttled uint64
	// wide says that the last width was more than Reserved; since is when that last changed.
	wide  bool
	since time.Duration
	// until is when the present or last pause ends.
	until, pause time.Duration
	// threads is the highest recent number of threads, which is valid until lasting.
	threads int
	lasting time.Duration
}

// Next returns the state and the width after an observation at a time of the monotonic clock.
//
// A group may use twice its limit, as far as it has threads: they spread over more cores, and two threads that shared a
// core get a core each. The quota stays, so the group gets more done only where threads on one core slow each other
// down: two siblings cost two CPUs of quota for the work of 1.2 to 1.5. If many threads are always ready, the quota
// ends early, and all threads are throttled until the next period. So a throttled group has only its reserved CPUs, for
// a minute after the last time. Each time it is throttled on borrowed CPUs the pause doubles, up to ten minutes. The
// pause starts at a minute again once the group was wide for ten minutes without throttling.
func (b Borrowing) Next(now time.Duration, c Claim) (Borrowing, Width) {
	b.count(now, c.Threads)
	b.pausing(now, c.Throttled)
	most := c.most()
	w := Width{CPUs: most, Why: "up to twice its limit"}
	switch {
	case b.pause > 0 && now < b.until:
		w = Width{CPUs: c.Reserved, Why: fmt.Sprintf("its quota throttled it, and it has what is reserved until it was not throttled for %s", b.pause)}
	case most == c.Reserved:
		w.Why = "twice its limit is no more than what is reserved"
	case c.Threads > 0 && b.threads < most:
		w = Width{CPUs: max(c.Reserved, b.threads), Why: fmt.Sprintf("up to as many as it has threads, %d", b.threads)}
	}
	if wide := w.CPUs > c.Reserved; wide != b.wide {
		b.wide, b.since = wide, now
	}
	return b, w
}

// count records the highest recent number of threads.
func (b *Borrowing) count(now time.Duration, threads int) {
	if threads >= b.threads || now >= b.lasting {
		b.threads, b.lasting = threads, now+lastingThreads
	}
}

// pausing begins a pause, or forgets the length of the last one. A counter that went back belongs to another group.
func (b *Borrowing) pausing(now time.Duration, throttled uint64) {
	more := b.looked && throttled > b.throttled
	b.looked, b.throttled = true, throttled
	switch {
	case more && b.pause == 0:
		b.pause = firstPause
	case more && b.wide:
		b.pause = min(2*b.pause, longestPause)
	case !more && b.wide && now-b.since >= longestPause:
		b.pause = 0
	}
	if more {
		b.until = now + b.pause
	}
}
