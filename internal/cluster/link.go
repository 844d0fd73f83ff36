package cluster

import (
	"sync"
	"time"
)

// link knows whether the API server answers. Two things show it: the watch of the
// pods, which may end, and the renewals of the Lease, which hear nothing when the
// server hangs and its connections stay open.
type link struct {
	mu sync.Mutex
	// broken is since when pods could neither be listed nor watched, silent since
	// when no request was answered; zero while all is well.
	broken, silent time.Time
	watchErr       error
	silentErr      error
}

// newLink returns one that waits for the first list since now.
func newLink(now time.Time) *link {
	return &link{broken: now, watchErr: errNotListed}
}

// watched takes over how a list or watch of pods ended, nil for well.
func (l *link) watched(now time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark(&l.broken, &l.watchErr, now, err)
}

// answered takes over whether a request was answered.
func (l *link) answered(now time.Time, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	mark(&l.silent, &l.silentErr, now, err)
}

func mark(since *time.Time, last *error, now time.Time, err error) {
	switch {
	case err == nil:
		*since = time.Time{}
	case since.IsZero():
		*since = now
	}
	*last = err
}

// away returns since when the API server is away, and what was heard last; a zero
// time if it is not, or for less than grace.
func (l *link) away(now time.Time, grace time.Duration) (time.Time, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	since, err := l.broken, l.watchErr
	if since.IsZero() || !l.silent.IsZero() && l.silent.Before(since) {
		since, err = l.silent, l.silentErr
	}
	if since.IsZero() || now.Sub(since) < grace {
		return time.Time{}, nil
	}
	return since, err
}
