package reconcile

import (
	"context"
	"maps"
	"sync"
	"time"
)

// AskFor is how long systemd is asked between two passes. What is left after that the next
// one plans anew.
const AskFor = 100 * time.Millisecond

// Asking has systemd asked for what passes left to it (Later), between two of them. The lock
// on the Reconciler is not held meanwhile: others go on, and what is not desired any more
// because of that is left out. Of a nil Asking there is nothing to ask. Ask is for one
// goroutine, all else for any.
type Asking struct {
	reconciler *Reconciler
	later      *Later
	lock       sync.Locker
	clock      func() time.Duration
	// urgent are closed when systemd was asked for the group of a container that is
	// about to run.
	urgent map[string]chan struct{}
}

// NewAsking returns an Asking for a Reconciler and the Later that its Applier writes
// through. The lock guards the Reconciler, and so the Asking; clock is monotonic.
func NewAsking(r *Reconciler, later *Later, lock sync.Locker, clock func() time.Duration) *Asking {
	return &Asking{reconciler: r, later: later, lock: lock, clock: clock, urgent: map[string]chan struct{}{}}
}

// Urgent says that a container waits for its group (Await). The caller holds the lock.
func (a *Asking) Urgent(group string) {
	if a != nil {
		a.urgent[group] = make(chan struct{})
	}
}

// AtOnce ends the deferring: from now on a pass waits for systemd.
func (a *Asking) AtOnce() {
	if a != nil {
		a.later.AtOnce()
	}
}

// Ask has systemd write what the last pass left to it, the urgent first, and says whether
// the next one is due because of it.
func (a *Asking) Ask() bool {
	if a == nil {
		return false
	}
	until := a.clock() + AskFor
	first, rest, urgent := a.take()
	a.ask(first, until)
	a.report(urgent)
	a.ask(rest, until)
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

// ask asks systemd for what is still desired, until it is too late for the rest.
func (a *Asking) ask(asks []Ask, until time.Duration) {
	for _, one := range asks {
		if a.clock() >= until {
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
