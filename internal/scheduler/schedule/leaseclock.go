package schedule

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/node/apiclient"
)

const (
	// longestQuiet and shortestQuiet bound how long the clock goes on without news of any Lease. Between these bounds
	// the limit is a sixth of staleAfter.
	longestQuiet  = 30 * time.Second
	shortestQuiet = 3 * lookEvery
	// gather is how long opened nodes are collected, so that the pods waiting for them are tried once.
	gather = 100 * time.Millisecond
)

// leaseClock is the clock by which agents grow stale. It stands still while nothing shows that the API server answers:
// an agent that cannot be heard is not silent. An API server that is away for a minute must not close every node of the
// cluster. If the API server answers, the clock goes on even without a renewal. The zero value follows the time of this
// host, and is safe for concurrent use.
type leaseClock struct {
	mu sync.Mutex
	// stopped is for how long the clock stood still so far.
	stopped time.Duration
	// ticked is the last call of tick. answered is when a Lease was last heard of, or the Leases were listed.
	ticked, answered time.Time
	asking           bool
}

// at converts a time of this host to this clock.
func (l *leaseClock) at(t time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.Add(-l.stopped)
}

// hear notes that the API server showed one Lease, or all.
func (l *leaseClock) hear(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.answered) {
		l.answered = now
	}
}

// tick advances the clock, and reports whether to ask the API server for the Leases: then the caller must call asked at
// the end.
func (l *leaseClock) tick(now time.Time, quiet time.Duration) (ask bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if silent := now.Sub(l.answered); silent > quiet && !l.ticked.IsZero() {
		l.stopped += min(now.Sub(l.ticked), silent-quiet)
	}
	l.ticked = now
	ask = !l.asking && now.Sub(l.answered) > quiet/2
	l.asking = l.asking || ask
	return ask
}

// asked notes that the API server was asked.
func (l *leaseClock) asked() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asking = false
}

// quiet returns how long the clock goes on without news of any Lease.
func (a *agents) quiet() time.Duration {
	return max(shortestQuiet, min(longestQuiet, a.staleAfter/6))
}

// tickLeases advances the clock of the Leases, once they were listed. If none was heard of for a while, it lists them.
// An answer distinguishes silent agents from a silent API server, and a hanging watch from both.
func (a *agents) tickLeases(now time.Time) {
	if a.staleAfter == 0 || !a.listed.Load() || !a.clock.tick(now, a.quiet()) {
		return
	}
	a.spawn(func(ctx context.Context) {
		defer a.clock.asked()
		ctx, cancel := context.WithTimeout(ctx, a.quiet()/2)
		defer cancel()
		list, err := a.handle.ClientSet().CoordinationV1().Leases(a.namespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return // asked again as long as no Lease is heard of
		}
		a.hearAll(list.Items)
	})
}

// hearAll records the Leases of a list.
func (a *agents) hearAll(leases []coordinationv1.Lease) {
	now := time.Now()
	a.clock.hear(now)
	for i := range leases {
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			a.heard(leases[i].Name, renewed.Time, now)
		}
	}
}

// opened tries the pods again that wait for a node to open. It first waits a moment for more nodes: the cause that
// silences one agent often silences many.
func (a *agents) opened() {
	if !a.opening.CompareAndSwap(false, true) {
		return
	}
	a.spawn(func(ctx context.Context) {
		if apiclient.Pause(ctx, gather) {
			a.opening.Store(false)
			a.queue.activate(refusedByTopology)
		}
	})
}
