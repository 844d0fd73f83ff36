package cluster

import (
	"sync"
	"time"
)

// link knows whether the API server answers. Two things show it: the watch of the
// pods, which may end, and the renewals of the Lease, which hear nothing when the
// server hangs and its connections stay open.
type link struct {
	// doubt is called when either begins to fail, and only then; nil for none.
	doubt func()

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
func (l *link) watched(now time.Time, err error) { l.take(&l.broken, &l.watchErr, now, err) }

// answered takes over whether a request was answered.
func (l *link) answered(now time.Time, err error) { l.take(&l.silent, &l.silentErr, now, err) }

func (l *link) take(since *time.Time, last *error, now time.Time, err error) {
	l.mu.Lock()
	begins := err != nil && since.IsZero()
	switch {
	case err == nil:
		*since = time.Time{}
	case begins:
		*since = now
	}
	*last = err
	l.mu.Unlock()
	if begins && l.doubt != nil {
		l.doubt()
	}
}

// doubtful says whether time alone may show that the API server is away.
func (l *link) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.broken.IsZero() || !l.silent.IsZero()
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
