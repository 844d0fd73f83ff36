package isolate

import (
	"time"

	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// pace is how long nothing grows after the boundary moved.
	pace = 5 * time.Second
	// settled is how long growth by less than a whole step waits, so that noise around a load moves nothing back and
	// forth. It is longer than the window of the use.
	settled = 30 * time.Second
	// costly replaces pace and settled where each move costs threads their affinity.
	costly = time.Minute
	// mostSteal is the steal time above which nothing grows: the host of this machine is short of CPUs, and the
	// machine's apparent idle time is not available.
	mostSteal = 0.05
	// While offline work has more than its guarantee, samples come between soonest and latest apart. lookShare bounds
	// their cost, in CPUs.
	soonest, latest = 50 * time.Millisecond, 500 * time.Millisecond
	lookShare       = 0.005
)

// Node is the input of a decision, in addition to the measurements.
type Node struct {
	Policy Policy
	// Movable is the cores that either side may have, as the function Movable returns them.
	Movable []Core
	// Offline is true if there is an offline container, or one is about to be made.
	Offline bool
	// LookCost is the CPU time of one sample of /proc/stat on this machine.
	LookCost time.Duration
	// Costly is true if each move makes threads forget for good which CPUs they chose.
	Costly bool
}

// Reason says why the boundary is where it is.
type Reason string

// The reasons. With the last two there is no boundary.
const (
	Started    Reason = "offline work came"
	Kept       Reason = "nothing asks for a move"
	OnlineRose Reason = "online use rose"
	OnlineFell Reason = "online use fell"
	Surged     Reason = "online work had no idle time left"
	Moved      Reason = "the cores that may be offline are others"
	Waiting    Reason = "more is free, and offline work has to wait for it"
	Slowed     Reason = "more is free, and offline work gets some of it once a minute: each move costs threads the CPUs that they chose"
	Stolen     Reason = "more seems free, but the hypervisor takes more than 5 % of the time"
	Unread     Reason = "what online work uses cannot be read"
	NotWanted  Reason = "there is no offline work"
	TooFew     Reason = "fewer than two cores can be moved: offline work shares the pool"
)

// Decision is where the boundary should be.
type Decision struct {
	// Exists is true if there is a boundary. Otherwise both sets are empty.
	Exists bool
	// Offline and Online are each side's CPUs.
	Offline, Online cpuset.Set
	// Cores are all movable cores, in the order in which offline work gets them. It has the first Size of them; without
	// a boundary it would have the first Figures.Low.
	Cores []Core
	Size  int
	// Figures are the figures behind the decision.
	Figures Figures
	// Changed is true if Offline differs from the previous decision.
	Changed bool
	Reason  Reason
	// Next is the time until the next sample.
	Next time.Duration
}

// Boundary is the state between decisions, for one goroutine. The zero value has no boundary.
type Boundary struct {
	gauge  gauge
	held   []Core // in the order in which offline work got them
	lineup lineup
	online cpuset.Set
	// moved is the time of the last move, and calm the time from which offline work may grow again.
	moved, calm time.Duration
	exists      bool
}

// Look records what each CPU did since boot, by its number, at a monotonic time above 0. The caller calls it before
// Decide for the same moment.
func (b *Boundary) Look(now time.Duration, spent []unit.CPUSpent) {
	b.gauge.look(now, spent, b.online, 0)
}

// Decide moves the boundary, and returns its new place.
func (b *Boundary) Decide(now time.Duration, n Node) Decision {
	cores := len(n.Movable)
	held, order := b.lineup.of(b.held, n.Movable)
	f := b.gauge.law(now, n.Policy, order)
	if why := none(n); why != "" {
		changed := b.exists
		*b = Boundary{gauge: b.gauge, online: cpusOf(n.Movable)}
		return Decision{Cores: resize(nil, n.Movable, cores), Figures: f, Changed: changed, Reason: why, Next: second}
	}
	before := cpusOf(b.held)
	size, why := b.size(now, len(held), f, n.Costly)
	if len(held) < len(b.held) && why == Kept {
		why = Moved
	}
	b.held, b.exists = order[:size:size], true
	if size < len(held) {
		order = resize(b.held, n.Movable, cores)
	}
	offline := cpusOf(b.held)
	b.online = cpusOf(n.Movable).Difference(offline)
	changed := offline != before
	if changed {
		b.moved = now
	}
	return Decision{
		Exists: true, Offline: offline, Online: b.online, Cores: order, Size: size,
		Figures: f, Changed: changed, Reason: why, Next: n.next(size > f.Low),
	}
}

// none returns why there is no boundary, "" if there is one.
func none(n Node) Reason {
	switch {
	case !n.Offline:
		return NotWanted
	case len(n.Movable) < 2:
		return TooFew
	}
	return ""
}

// size returns how many cores offline work gets; has is how many it has now. costs is Node.Costly.
func (b *Boundary) size(now time.Duration, has int, f Figures, costs bool) (int, Reason) {
	switch {
	case !b.exists:
		return f.Low, Started
	case b.surges(has, f):
		b.calm = now + Window
		return max(f.Low, min(has-f.surge(has), f.Target)), Surged
	case b.gauge.blind(now):
		return max(f.Low, min(has, f.Target)), Unread
	case has > f.Target:
		return f.Target, OnlineRose
	case has < f.Low:
		return f.Low, Moved
	case has == f.Target:
		return has, Kept
	case b.gauge.steal() > mostSteal:
		return has, Stolen
	}
	return b.grown(now, has, f, costs)
}

// grown returns how many cores offline work gets that has less than its target.
func (b *Boundary) grown(now time.Duration, has int, f Figures, costs bool) (int, Reason) {
	step, since := max(1, f.Cores/10), now-b.moved
	switch {
	case now < b.calm || since < pace || f.Target-has < step && since < settled:
		return has, Waiting
	case costs && since < costly:
		return has, Slowed
	}
	return min(f.Target, has+step), OnlineFell
}

// surges reports, once for each sample, whether the online side had less idle time since the previous sample than half
// of its buffer. Offline work must have more than its guarantee.
func (b *Boundary) surges(has int, f Figures) bool {
	fresh := b.gauge.fresh
	b.gauge.fresh = false
	return fresh && has > f.Low && float64(b.gauge.idle) < f.Buffer/2*f.core()
}

// next returns the time until the next sample: short while offline work has cores to give back.
func (n Node) next(above bool) time.Duration {
	if !above {
		return second
	}
	return min(max(time.Duration(float64(n.LookCost)/lookShare), soonest), latest)
}
