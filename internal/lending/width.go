package lending

import (
	"fmt"
	"math"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

const (
	// firstPause is how long a group that its quota throttled has its reserved CPUs only. It
	// doubles each time the group is throttled on borrowed ones, up to longestPause.
	firstPause, longestPause = time.Minute, 10 * time.Minute
	// lastingThreads is how long threads count that a group had: a pool of threads that
	// shrinks and grows moves nothing back and forth.
	lastingThreads = time.Minute
)

// Claim is what one look found of a group that borrows CPUs besides those reserved for it.
type Claim struct {
	// Reserved is how many CPUs are reserved for it, its limit rounded up.
	Reserved int
	// Limit is what its quota grants, in CPUs.
	Limit unit.CPUs
	// Threads is how many it has, 0 where that is not known: then they bound nothing.
	Threads int
	// Throttled counts the periods in which its quota ran out, since the group was made.
	Throttled uint64
}

// most is twice the limit in whole CPUs, and no less than what is reserved.
func (c Claim) most() int {
	twice := math.Floor(2*float64(c.Limit) + 1e-6) // a limit is in thousandths, and 2 x 1.5 is 3
	if !(twice < math.MaxInt32) {
		return math.MaxInt32
	}
	return max(c.Reserved, int(twice))
}

// Width is how many CPUs a group shall have, reserved ones included.
type Width struct {
	CPUs int
	// Why says what it follows from. It does not change while that does not.
	Why string
}

// Borrowing is the state of one group from look to look. The zero value is that before the
// first one.
type Borrowing struct {
	looked    bool
	throttled uint64
	// wide says that the last width was more than what is reserved, since when that is so.
	wide  bool
	since time.Duration
	// until is when the pause ends that is under way, or was last.
	until, pause time.Duration
	// threads is how many count, and lasting until when.
	threads int
	lasting time.Duration
}

// Next takes what a look found at a moment of the monotonic clock, and returns the state
// afterwards and the width.
//
// A group may be twice as wide as its limit, as far as it has threads: they spread over more
// cores, and two threads that shared a core have one each. Its quota stays, so that it gets
// more done only where the threads of one core stand in each other's way: two siblings cost two
// CPUs of quota for the work of 1.2 to 1.5. Where threads are many and always ready the quota
// ends early, and they all stand still until the next period. So a group that its quota
// throttled has the CPUs that are reserved for it, for a minute after the last time; each time
// that it was throttled on borrowed ones that is twice as long, up to ten minutes. It begins
// anew once it was wide for ten minutes without.
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

// count has the most threads count that there were lately.
func (b *Borrowing) count(now time.Duration, threads int) {
	if threads >= b.threads || now >= b.lasting {
		b.threads, b.lasting = threads, now+lastingThreads
	}
}

// pausing begins a pause, or forgets how long the last one was. A counter that went back is
// another group's.
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
