package schedule

import (
	"context"
	"sync"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/berth-project/berth/internal/apiclient"
)

const (
	// longestQuiet and shortestQuiet bound for how long no Lease may be heard of until
	// the time does not count any more; in between it is a sixth of staleAfter.
	longestQuiet  = 30 * time.Second
	shortestQuiet = 3 * lookEvery
	// gather is how long nodes that open are collected, so that the pods that wait for
	// one are tried once.
	gather = 100 * time.Millisecond
)

// leaseClock is the time by which agents grow stale. It stands still while nothing
// says that the API server answers: an agent that cannot be heard is not silent, and
// an API server that is away for a minute must not close every node of the cluster.
// An API server that answers and has no renewal to show lets it go on. The zero value
// goes with the time of this host, and is safe for concurrent use.
type leaseClock struct {
	mu sync.Mutex
	// stopped is for how long it stood still so far.
	stopped time.Duration
	// ticked is when tick was called last, and answered when a Lease was heard of, or
	// the Leases were listed.
	ticked, answered time.Time
	asking           bool
}

// at returns a time of this host by this clock.
func (l *leaseClock) at(t time.Time) time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return t.Add(-l.stopped)
}

// hear notes that the API server showed a Lease, or all.
func (l *leaseClock) hear(now time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.After(l.answered) {
		l.answered = now
	}
}

// tick advances the clock, and says whether to ask the API server for the Leases:
// then asked must be called at the end.
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

// quiet returns for how long no Lease may be heard of while the clock goes on.
func (s settings) quiet() time.Duration {
	return max(shortestQuiet, min(longestQuiet, s.staleAfter/6))
}

// tickLeases advances the clock of the Leases, once they were listed. Where none was
// heard of for a while it asks for them: an answer separates agents that are silent from
// an API server that is, and a watch that hangs from both.
func (a *agents) tickLeases(now time.Time) {
	if a.settings.staleAfter == 0 || !a.listed.Load() || !a.clock.tick(now, a.settings.quiet()) {
		return
	}
	a.spawn(func(ctx context.Context) {
		defer a.clock.asked()
		ctx, cancel := context.WithTimeout(ctx, a.settings.quiet()/2)
		defer cancel()
		list, err := a.handle.ClientSet().CoordinationV1().Leases(a.settings.leaseNamespace).List(ctx, metav1.ListOptions{})
		if err != nil {
			return // It is asked again as long as no Lease is heard of.
		}
		a.hearAll(list.Items)
	})
}

// hearAll takes over the Leases of a list.
func (a *agents) hearAll(leases []coordinationv1.Lease) {
	now := time.Now()
	a.clock.hear(now)
	for i := range leases {
		if renewed := leases[i].Spec.RenewTime; renewed != nil {
			a.heard(leases[i].Name, renewed.Time, now)
		}
	}
}

// opened tries the pods again that wait for a node to open, after a moment in which
// more nodes may: what keeps one agent silent often keeps many.
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
