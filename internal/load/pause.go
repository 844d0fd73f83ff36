package load

import (
	"context"
	"fmt"
	"time"
)

// Pause waits for d, or until ctx ends: then the error is ctx's.
func Pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("interrupted: %w", ctx.Err())
	}
}
