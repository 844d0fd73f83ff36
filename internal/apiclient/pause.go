package apiclient

import (
	"context"
	"time"
)

// Pause waits between two requests, or until ctx ends, and says whether it waited.
func Pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
