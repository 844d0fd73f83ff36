package cluster

import (
	"sync"
	"time"
)

// link knows whether the API server answers. It has two sources: the watch of the pods, which may end, and the requests
// for the Lease, which time out when the server hangs and its connections stay open.
type link struct {
	// doubt is called when one of the two begins to fail; nil for none.
	doubt func()

	mu sync.Mutex
	// broken is when the list or watch of pods began to fail. silent is when Lease requests began to go unanswered.
	// Each is zero while its own source works.
	broken, silent time.Time
	watchErr       error
	silentErr      error
}

// newLink returns a link that waits for the first list since now.
func newLink(now time.Time) *link {
	return &link{broken: now, watchErr: errNotListed}
}

// watched records the result of a list or watch of pods, nil for success.
func (l *link) watched(now time.Time, err error) { l.take(&l.broken, &l.watchErr, now, err) }

// answered records whether a request was answered: nil if so.
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

// doubtful reports whether the API server may be found away after some time without another event.
func (l *link) doubtful() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return !l.broken.IsZero() || !l.silent.IsZero()
}

// away returns since when the API server is away, and its last error. The time is zero if it has not been away for
// grace.
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
