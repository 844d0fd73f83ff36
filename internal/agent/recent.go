package agent

import (
	"sync"
	"time"
)

// answerEvery is how often an answer over HTTP is made anew. Any client on the node's
// network may ask as often as it likes: the mutex, for which the container runtime's
// questions wait, is taken that often and not more.
const answerEvery = 200 * time.Millisecond

// recent is an answer that is given to all who ask within answerEvery. Those who ask
// while it is made wait for it.
type recent[T any] struct {
	mu    sync.Mutex
	until time.Time
	value T
	err   error
}

// get returns the answer, made anew if it is old.
func (r *recent[T]) get(anew func() (T, error)) (T, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Now().After(r.until) {
		r.value, r.err = anew()
		r.until = time.Now().Add(answerEvery)
	}
	return r.value, r.err
}

// nowAndThen returns what makes an answer, for all who ask within answerEvery.
func nowAndThen[T any](anew func() (T, error)) func() (T, error) {
	var r recent[T]
	return func() (T, error) { return r.get(anew) }
}
