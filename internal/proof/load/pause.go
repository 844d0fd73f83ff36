package load

import (
	"context"
	"fmt"
	"time"
)

// Pause waits for d. If ctx ends first, Pause returns its error.
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
