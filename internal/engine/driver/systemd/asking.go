package systemd

import (
	"context"
	"maps"
	"sync"
	"time"
)

// AskFor bounds how long systemd is asked at a time. The next pass plans the remaining requests again.
const AskFor = 100 * time.Millisecond

// Reconciler makes the requests that a Later defers.
type Reconciler interface {
	// StillAsks reports whether a request is still the last one for its unit.
	StillAsks(a Ask) bool
}

// Asking asks systemd for the changes that passes left to it (Later), outside the loop: a slow systemd delays nothing
// else. Asking does not hold the lock on the Reconciler while it waits, and skips changes that are not desired any
// more.
//
// No pass may run while systemd is asked (IsAsking): it would treat values as settled that systemd is about to change.
// Each answer is valid for one whole pass: Begin and End are called around each turn of the loop. A nil Asking does
// nothing. Run is for one goroutine, all other methods for any.
type Asking struct {
	reconciler Reconciler
	later      *Later
	lock       sync.Locker
	clock      func() time.Duration
	// urgent has the groups of containers that are about to run. Each channel is closed once systemd was asked.
	urgent map[string]chan struct{}
	// turn makes Run ask.
	turn chan struct{}
	// busy is true while systemd is asked, or while its answers (answered) wait for a turn to begin.
	busy, answered bool
}

// NewAsking returns an Asking for a Reconciler and the Later that its Applier writes through. The lock guards the
// Reconciler and the Asking; clock is monotonic.
func NewAsking(r Reconciler, later *Later, lock sync.Locker, clock func() time.Duration) *Asking {
	return &Asking{reconciler: r, later: later, lock: lock, clock: clock, urgent: map[string]chan struct{}{}, turn: make(chan struct{}, 1)}
}

// Begin marks the beginning of a turn of the loop, whose pass uses the answers.
func (a *Asking) Begin() {
	if a == nil {
		return
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if a.answered {
		a.busy, a.answered = false, false
	}
}

// IsAsking reports whether systemd is being asked. The caller holds the lock.
func (a *Asking) IsAsking() bool { return a != nil && a.busy && !a.answered }

// End marks the end of a turn of the loop: Run then asks systemd for what the pass left, unless it is already asking.
func (a *Asking) End() {
	if a == nil {
		return
	}
	a.lock.Lock()
	defer a.lock.Unlock()
	if !a.busy && (!a.later.Rest() || len(a.urgent) > 0) {
		a.busy = true
		a.turn <- struct{}{}
	}
}

// Run asks systemd after turns of the loop until the context ends; it returns within one call to systemd. It calls
// answered, with the lock held, once a pass is due for the answers.
func (a *Asking) Run(ctx context.Context, answered func()) {
	if a == nil {
		return
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.turn:
		}
		some := a.ask(ctx)
		a.lock.Lock()
		if a.busy, a.answered = some, some; some {
			answered()
		}
		a.lock.Unlock()
	}
}

// Urgent records that a container waits for its group (Await). The caller holds the lock.
func (a *Asking) Urgent(group string) {
	if a != nil {
		a.urgent[group] = make(chan struct{})
	}
}

// AtOnce ends the deferring: from now on a pass waits for systemd. Run has ended; the caller holds the lock.
func (a *Asking) AtOnce() {
	if a != nil {
		a.busy, a.answered = false, false // a turn that Run did not reach
		a.later.AtOnce()
	}
}

// ask asks systemd for the changes that passes left to it, urgent groups first. It reports whether there were any.
func (a *Asking) ask(ctx context.Context) bool {
	until := a.clock() + AskFor
	first, rest, urgent := a.take()
	a.each(ctx, first, until)
	a.report(urgent)
	a.each(ctx, rest, until)
	return len(first)+len(rest) > 0
}

// take returns the requests, first those that a container waits for, and the groups of the waiting containers.
func (a *Asking) take() (first, rest []Ask, urgent map[string]chan struct{}) {
	a.lock.Lock()
	defer a.lock.Unlock()
	urgent = maps.Clone(a.urgent)
	awaited := map[string]bool{}
	for group := range urgent {
		awaited[UnitOf(group)] = true
	}
	for _, one := range a.later.Take() {
		if awaited[one.Unit] {
			first = append(first, one)
		} else {
			rest = append(rest, one)
		}
	}
	return first, rest, urgent
}

// each asks systemd for changes that are still desired, until the time is up.
func (a *Asking) each(ctx context.Context, asks []Ask, until time.Duration) {
	for _, one := range asks {
		if a.clock() >= until || ctx.Err() != nil {
			return
		}
		a.lock.Lock()
		still := a.reconciler.StillAsks(one)
		a.lock.Unlock()
		if still {
			a.later.Do(one)
		}
	}
}

// report wakes the containers that waited.
func (a *Asking) report(urgent map[string]chan struct{}) {
	a.lock.Lock()
	defer a.lock.Unlock()
	for group, asked := range urgent {
		close(asked)
		if a.urgent[group] == asked {
			delete(a.urgent, group)
		}
	}
}

// Await waits until systemd was asked for an urgent group, but at most AskFor. Otherwise the container runtime would go
// on without an answer, and start containers on CPUs of other groups.
func (a *Asking) Await(ctx context.Context, group string) {
	if a == nil {
		return
	}
	a.lock.Lock()
	asked := a.urgent[group]
	a.lock.Unlock()
	if asked == nil {
		return
	}
	select {
	case <-asked:
	case <-time.After(AskFor):
	case <-ctx.Done():
	}
}
