package apiclient

import (
	"context"
	"time"
)

// Pause waits for d or until ctx ends, and reports whether it waited for d.
func Pause(ctx context.Context, d time.Duration) bool { return Wake(nil).Pause(ctx, d) }

// Wake ends the pause of one goroutine early. It has room for one element, so that no call is lost between two pauses.
type Wake chan struct{}

// Soon ends the pause, or the next pause. It does not block.
func (w Wake) Soon() {
	select {
	case w <- struct{}{}:
	default:
	}
}

// Pause waits for d, for Soon or until ctx ends. It returns false if ctx ended.
func (w Wake) Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-w:
	case <-timer.C:
	}
	return true
}
