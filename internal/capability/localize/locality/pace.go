package locality

import "time"

// The constants of the pace.
const (
	// CallsPerSecond is the most calls a second under a limit: each call drains the page lists of all CPUs, also those
	// of pinned workloads.
	CallsPerSecond = 20
	// FewestPages is the smallest bound on the base pages of one call.
	FewestPages = 1 << 10
	// MostPages is the most base pages of one call.
	MostPages = 1 << 16

	pageSize = 4 << 10
	aimed    = time.Second / CallsPerSecond // longest desired time of a call
	planned  = 12                           // calls a second that use up the limit; the others find huge pages
	// credit is the time that a pass may make up for, when it searched for pages or a call took longer. Together with
	// the wait for one call it is less than a twentieth of ten seconds, over which the limit is measured.
	credit = 350 * time.Millisecond

	slowed  = 0.05 // stalled share since the last sample above which the rate is halved
	stopped = 0.20 // stalled share above which there is a pause
	costly  = 4    // times the best cost of a page, from which the rate is halved
	// enoughCalls is how many calls must all be that costly: a single call may have lost its CPU.
	enoughCalls = 4
	aging       = 16 // each sample adds 1/aging to the best cost
	recovery    = 8  // each second adds 1/recovery to the rate
	leastRate   = FewestPages * pageSize
	pause       = 5 * time.Second
	swapPause   = 30 * time.Second
	lookPeriod  = time.Second
)

// Pace decides when the next call may be made and how many pages it may have. It is a value without a clock: times are
// monotonic arguments. The zero value has no limit.
type Pace struct {
	limit float64 // bytes a second, 0 for none
	rate  float64 // bytes a second, 0 for no limit

	best, least time.Duration // cost of a page: in all calls, and in calls since the last sample
	last        time.Duration // in the last call
	calls       int           // since the last sample, only calls that show the cost
	next        time.Duration // when the next call may begin, by the number of calls
	free        time.Duration // and by the bytes of earlier calls
	until       time.Duration // end of a pause
	looked      time.Duration // time of the last sample
	bytes       int64         // sent since the last sample
	known       bool          // there was a sample
	stalled     time.Duration
	swapped     int64
	why         string
	pauses      int
}

// Signs show whether a pass disturbs others: counters that only grow.
type Signs struct {
	// Stalled is how long processes of the group (cgroup v1: of the host) waited for
	// memory; SwappedOut counts the pages that the host wrote to swap.
	Stalled    time.Duration
	SwappedOut int64
}

// NewPace returns the pace of a pass that begins now, with a limit in bytes a second; 0 is no limit.
func NewPace(limit int64, now time.Duration) Pace {
	return Pace{limit: float64(limit), rate: float64(limit), free: now}
}

// Ahead returns how many base pages to find at once: the pages of a second, so that finding them uses less than the
// credit.
func (p *Pace) Ahead() int {
	if p.rate > 0 {
		return int(min(max(p.rate/pageSize, FewestPages), MostPages))
	}
	return MostPages
}

// Pages returns how many base pages the next call may have.
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

// Wait returns how long the rate delays the next call.
func (p *Pace) Wait(now time.Duration) time.Duration { return max(p.next, p.free, now) - now }

// Called records a call: its beginning, its duration and its number of base pages. A page that stays costs as much as a
// page that moves: the kernel unmaps it first, and stops its users. base is true if all of them were single pages:
// pages in huge pages cost less each, and do not predict the next call.
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

// Charge adds base pages that the last call moved in addition.
func (p *Pace) Charge(pages int) {
	p.bytes += int64(pages) * pageSize
	if p.rate > 0 {
		p.free += time.Duration(float64(pages) * pageSize / p.rate * float64(time.Second))
	}
}

// Due reports whether it is time to sample the signs.
func (p *Pace) Due(now time.Duration) bool { return !p.known || now-p.looked >= lookPeriod }

// Look records the present signs, and slows down, pauses or speeds up.
func (p *Pace) Look(now time.Duration, s Signs) {
	before, passed := *p, now-p.looked
	p.known, p.looked, p.stalled, p.swapped = true, now, s.Stalled, s.SwappedOut
	p.bytes, p.calls, p.least = 0, 0, 0
	p.best += p.best / aging // the cheapest call ever may have had another size
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

// Paused returns why there is a pause, and for how long. The reason is empty if there is none.
func (p *Pace) Paused(now time.Duration) (why string, left time.Duration) {
	if now < p.until {
		return p.why, p.until - now
	}
	return "", 0
}

// Pauses returns the number of pauses so far.
func (p *Pace) Pauses() int { return p.pauses }

// Rate returns the present rate in bytes a second, 0 for no limit.
func (p *Pace) Rate() float64 { return p.rate }
