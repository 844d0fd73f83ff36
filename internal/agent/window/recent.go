package window

import (
	"sync"
	"time"
)

// answerEvery is the minimum time between two answers over HTTP that lock the agent's mutex. Any client on the node's
// network may ask as often as it likes, and requests of the container runtime wait for the mutex.
const answerEvery = 200 * time.Millisecond

// nowAndThen returns a function that shares one answer among all callers within answerEvery. Concurrent callers wait
// for it.
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
