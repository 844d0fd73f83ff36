package apiclient

import (
	"context"
	"time"
)

// Pause waits for d or until ctx ends, and reports whether it waited for d.
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
