package schedule

import (
	"context"
	"fmt"
	"sync"
	"time"
)

const (
	// senders bounds the concurrent bindings of pinned pods. An API server permits 100 requests on one HTTP/2
	// connection, and the watches of the scheduler and ordinary pods take some of them. For each request beyond that,
	// Go's client dials another connection, with a TLS handshake. Pinned pods are chosen faster than an API server
	// binds them, so there would be thousands.
	senders = 64
	// longestTurn bounds how long a binding that hangs, for example in a webhook of one namespace, keeps other pods
	// waiting. Nothing in the framework or the client ends such a binding soon.
	longestTurn = 2 * time.Second
)

// lanes bounds the concurrent requests to the API server. Each channel holds a token for each request under way.
type lanes struct {
	// looks are the checks of ambiguous binds.
	looks chan struct{}
	// sends are the bindings of pinned pods, without those that take longer than a turn.
	sends chan struct{}
}

func newLanes() lanes {
	return lanes{looks: make(chan struct{}, lookers), sends: make(chan struct{}, senders)}
}

// enter waits for a turn: until fewer than senders bindings have one. A turn ends with leave, or by itself after
// longestTurn. Enter fails if ctx ends before.
func (l *lanes) enter(ctx context.Context) (leave func(), err error) {
	select {
	case l.sends <- struct{}{}:
	case <-ctx.Done():
		return nil, fmt.Errorf("wait for the end of one of %d bindings: %w", senders, ctx.Err())
	}
	end := sync.OnceFunc(func() { <-l.sends })
	late := time.AfterFunc(longestTurn, end)
	return func() { late.Stop(); end() }, nil
}
