package schedule

import (
	"context"
	"fmt"
)

// senders bounds the concurrent bindings of pinned pods. An API server permits 100 requests on one HTTP/2 connection,
// and the watches of the scheduler and ordinary pods take some of them. For each request beyond that, Go's client dials
// another connection, with a TLS handshake. Pinned pods are chosen faster than an API server binds them, so there would
// be thousands.
const senders = 64

// lanes bounds the concurrent requests to the API server. Each channel holds a token for each request under way.
type lanes struct {
	// looks are the checks of ambiguous binds.
	looks chan struct{}
	// sends are the bindings of pinned pods.
	sends chan struct{}
}

func newLanes() lanes {
	return lanes{looks: make(chan struct{}, lookers), sends: make(chan struct{}, senders)}
}

// enter waits until fewer than senders bindings are under way; leave must follow. It fails if ctx ends before.
func (l *lanes) enter(ctx context.Context) error {
	select {
	case l.sends <- struct{}{}:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait for the end of one of %d bindings: %w", senders, ctx.Err())
	}
}

func (l *lanes) leave() { <-l.sends }
