package window

import (
	"sync"
	"time"
)

// answerEvery is how often an answer over HTTP is made anew. Any client on the node's
// network may ask as often as it likes: the agent's mutex, for which the container runtime's
// questions wait, is taken that often and not more.
const answerEvery = 200 * time.Millisecond

// nowAndThen returns what makes an answer for all who ask within answerEvery. Those who ask
// while it is made wait for it.
func nowAndThen[T any](anew func() (T, error)) func() (T, error) {
	var (
		mu    sync.Mutex
		until time.Time
		value T
		err   error
	)
	return func() (T, error) {
		mu.Lock()
		defer mu.Unlock()
		if time.Now().After(until) {
			value, err = anew()
			until = time.Now().Add(answerEvery)
		}
		return value, err
	}
}
