package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"
)

// AskFor is how long systemd is asked at a time. What is left after that the next pass plans again.
const AskFor = 100 * time.Millisecond

// Asking has systemd asked for what passes left to it (Later), beside the loop: a systemd that takes its
// time holds up nothing else. The lock on the Reconciler is not held meanwhile, and what is not desired
// any more is left out. No pass is made while systemd is asked (IsAsking): it would take for settled what
// systemd is about to change. Each answer counts for one whole pass: Begin and End are called around each
// turn of the loop. Of a nil Asking there is nothing to ask. Run is for one goroutine, all else for any.
type Asking struct {
	reconciler *Reconciler
	later      *Later
	lock       sync.Locker
	clock      func() time.Duration
	// urgent are closed when systemd was asked for the group of a container that is
	// about to run.
	urgent map[string]chan struct{}
	// turn makes Run ask.
	turn chan struct{}
	// busy says that systemd is asked, or that its answers wait for a turn to begin (answered).
	busy, answered bool
}

// NewAsking returns an Asking for a Reconciler and the Later that its Applier writes
// through. The lock guards the Reconciler, and so the Asking; clock is monotonic.
func NewAsking(r *Reconciler, later *Later, lock sync.Locker, clock func() time.Duration) *Asking {
	return &Asking{reconciler: r, later: later, lock: lock, clock: clock, urgent: map[string]chan struct{}{}, turn: make(chan struct{}, 1)}
}

// Begin says that a turn of the loop begins, whose pass takes the answers.
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

// IsAsking says that systemd is asked at the moment. The caller holds the lock.
func (a *Asking) IsAsking() bool { return a != nil && a.busy && !a.answered }

// End says that a turn of the loop ended: systemd is asked for what its pass left, unless it is asked
// already.
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

// Run has systemd asked after turns of the loop until the context ends, within one call to it. answered is
// called, with the lock held, once a pass is due for the answers.
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

// Urgent says that a container waits for its group (Await). The caller holds the lock.
func (a *Asking) Urgent(group string) {
	if a != nil {
		a.urgent[group] = make(chan struct{})
	}
}

// AtOnce ends the deferring: from now on a pass waits for systemd. Run has ended; the caller holds the
// lock.
func (a *Asking) AtOnce() {
	if a != nil {
		a.busy, a.answered = false, false // a turn that Run did not come to
		a.later.AtOnce()
	}
}

// ask has systemd write what passes left to it, the urgent first, and says whether there was any.
func (a *Asking) ask(ctx context.Context) bool {
	until := a.clock() + AskFor
	first, rest, urgent := a.take()
	a.each(ctx, first, until)
	a.report(urgent)
	a.each(ctx, rest, until)
	return len(first)+len(rest) > 0
}

// take returns what systemd is to be asked for, apart what is waited for, and who waits.
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

// each asks systemd for what is still desired, until it is too late for the rest.
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

// report ends the waiting for what systemd was asked for.
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

// Await waits until systemd was asked for an urgent group, but not for a systemd that takes
// its time: meanwhile the container runtime would go on without an answer, and make
// containers on CPUs of others.
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
