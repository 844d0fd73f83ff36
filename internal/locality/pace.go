package locality

import "time"

// The law of the pace.
const (
	// CallsPerSecond is the most calls a second under a limit: each one drains the lists
	// of pages of all CPUs, those of pinned workloads as well.
	CallsPerSecond = 20
	// FewestPages is the least that bounds the base pages of one call.
	FewestPages = 1 << 10
	// MostPages is the most base pages of one call.
	MostPages = 1 << 16

	pageSize = 4 << 10
	aimed    = time.Second / CallsPerSecond // the longest that a call should take
	planned  = 12                           // calls a second that use up the limit; the others find huge pages
	// credit is the time that a pass may make up for: it looked for pages, or the call took
	// longer. With the wait for one call it is less than a twentieth of ten seconds, for which the
	// limit holds.
	credit = 350 * time.Millisecond

	slowed  = 0.05 // stalled share of the last look above which the rate is halved
	stopped = 0.20 // and above which there is a pause
	costly  = 4    // times the best cost of a page, from which the rate is halved
	// enoughCalls is of how many calls the cheapest is that costly: one alone may have lost
	// its CPU.
	enoughCalls = 4
	aging       = 16 // one part of so many is added to the best cost, each look
	recovery    = 8  // one part of so many is added to the rate, each second
	leastRate   = FewestPages * pageSize
	pause       = 5 * time.Second
	swapPause   = 30 * time.Second
	lookPeriod  = time.Second
)

// Pace says when the next call may be made and how many pages it may take. It is a value
// without a clock: times are monotonic and come in. The zero value has no limit.
type Pace struct {
	limit float64 // bytes a second, 0 for none
	rate  float64 // bytes a second, 0 for no limit

	best, least time.Duration // cost of a page: in all calls, and in those since the last look
	last        time.Duration // in the last call
	calls       int           // since the last look, of those that show the cost
	next        time.Duration // when the next call may begin, by their number
	free        time.Duration // and by what was asked for
	until       time.Duration // end of a pause
	looked      time.Duration // the last look
	bytes       int64         // asked for since then
	known       bool          // there was a look
	stalled     time.Duration
	swapped     int64
	why         string
	pauses      int
}

// Signs are what shows that a pass disturbs others: counters that only grow.
type Signs struct {
	// Stalled is how long processes of the group (cgroup v1: of the host) waited for
	// memory; SwappedOut counts the pages that the host wrote to swap.
	Stalled    time.Duration
	SwappedOut int64
}

// NewPace returns the pace of a pass that begins now and may move so many bytes a second; 0 is
// no limit.
func NewPace(limit int64, now time.Duration) Pace {
	return Pace{limit: float64(limit), rate: float64(limit), free: now}
}

// Ahead is how many base pages are looked for at once: those of a second, so that looking
// takes less than the credit.
func (p *Pace) Ahead() int {
	if p.rate > 0 {
		return int(min(max(p.rate/pageSize, FewestPages), MostPages))
	}
	return MostPages
}

// Pages is how many base pages the next call may take.
func (p *Pace) Pages() int {
	pages := float64(MostPages)
	if p.last > 0 {
		pages = float64(aimed / p.last)
	}
	if p.rate > 0 {
		pages = min(pages, p.rate/pageSize/planned)
	}
	return int(min(max(pages, FewestPages), MostPages))
}

// Wait is how long to wait before the next call, because of the rate.
func (p *Pace) Wait(now time.Duration) time.Duration { return max(p.next, p.free, now) - now }

// Called takes in a call that began then, took so long and was asked for so many base pages. One that
// stays costs as much as one that moves: the kernel unmaps it first, and stops who uses it. Base
// says that all of them were single pages: others cost less each, and say nothing about the
// next call.
func (p *Pace) Called(began, took time.Duration, pages int, base bool) {
	p.free = max(p.free, began-credit)
	p.Charge(pages)
	if p.rate > 0 {
		p.next = began + aimed
	}
	if base && pages >= FewestPages/2 {
		p.last = max(1, took/time.Duration(pages))
		if p.calls++; p.calls == 1 || p.last < p.least {
			p.least = p.last
		}
		if p.best == 0 || p.last < p.best {
			p.best = p.last
		}
	}
}

// Charge counts base pages that the last call was asked for as well.
func (p *Pace) Charge(pages int) {
	p.bytes += int64(pages) * pageSize
	if p.rate > 0 {
		p.free += time.Duration(float64(pages) * pageSize / p.rate * float64(time.Second))
	}
}

// Due says whether a look at the signs is due.
func (p *Pace) Due(now time.Duration) bool { return !p.known || now-p.looked >= lookPeriod }

// Look takes in the signs of this moment, slows down, pauses or speeds up.
func (p *Pace) Look(now time.Duration, s Signs) {
	before, passed := *p, now-p.looked
	p.known, p.looked, p.stalled, p.swapped = true, now, s.Stalled, s.SwappedOut
	p.bytes, p.calls, p.least = 0, 0, 0
	p.best += p.best / aging // the cheapest call ever may have been of another size
	if !before.known || passed <= 0 {
		return
	}
	share := float64(s.Stalled-before.stalled) / float64(passed)
	switch {
	case s.SwappedOut > before.swapped:
		p.hold(now+swapPause, "the host swaps out")
	case share > stopped:
		p.hold(now+pause, "memory pressure")
	}
	switch {
	case share > slowed, before.calls >= enoughCalls && before.least >= costly*before.best:
		measured := float64(before.bytes) / passed.Seconds()
		if p.rate == 0 {
			p.rate = measured
		}
		p.rate = max(p.rate/2, leastRate)
	case p.rate > 0:
		p.rate += p.rate / recovery * passed.Seconds()
	}
	if p.limit > 0 {
		p.rate = min(p.rate, p.limit)
	}
}

func (p *Pace) hold(until time.Duration, why string) {
	p.until, p.why = until, why
	p.pauses++
}

// Paused says why there is a pause, and for how long. The reason is empty where there is none.
func (p *Pace) Paused(now time.Duration) (why string, left time.Duration) {
	if now < p.until {
		return p.why, p.until - now
	}
	return "", 0
}

// Pauses is how many pauses there were.
func (p *Pace) Pauses() int { return p.pauses }

// Rate is how many bytes a second it allows at this moment, and 0 without a limit.
func (p *Pace) Rate() float64 { return p.rate }
