// Package patience bounds the waits of tests by the machine's work rather than by its clock, so that a busy machine
// makes a test slower and not red.
//
// A Clock counts served time. It slows down when threads wait for a CPU: 20 runnable threads on two CPUs make ten
// seconds count as one. It also slows down when the hypervisor takes CPU time away (steal), and when all tasks wait for
// the disk. On an idle machine it runs as fast as any other clock. Until needs no limit: it ends when nothing has
// changed for so long that no progress is likely any more.
package patience

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrOver reports that a wait made no progress.
var ErrOver = errors.New("no progress")

const (
	// hang is how long a wait continues without progress, in served time. A healthy program needs less than a tenth of
	// it.
	hang = 5 * time.Minute
	// most is the maximum number of hangs that a wait may last, because endless changes are not progress either.
	most = 6
)

// Clock counts served time. The zero value starts at the first reading.
type Clock struct {
	served, queued time.Duration // Until the window began, and since then without its losses.
	window, last   machine
}

// Served returns how much CPU time each runnable thread could get since the first reading. Callers call it often,
// because each reading samples the number of runnable threads once.
func (c *Clock) Served() time.Duration {
	now := look()
	if c.last.at.IsZero() {
		c.window, c.last = now, now
	}
	c.queued += time.Duration(float64(now.at.Sub(c.last.at)) * now.share())
	c.last = now
	served := c.served + time.Duration(float64(c.queued)*now.kept(c.window))
	if now.at.Sub(c.window.at) >= shortest {
		c.served, c.queued, c.window = served, 0, now
	}
	return served
}

// Until calls look until it returns "". It restarts its count whenever look returns another text. If nothing changes
// for long, the error is ErrOver with the last text.
func Until(ctx context.Context, every time.Duration, look func() string) error {
	return until(ctx, hang, every, look)
}

func until(ctx context.Context, limit, every time.Duration, look func() string) error {
	var all, same Clock
	all.Served()
	same.Served()
	for said := look(); said != ""; {
		select {
		case <-ctx.Done():
			return fmt.Errorf("%s: %w", said, context.Cause(ctx))
		case <-time.After(every):
		}
		if waited := same.Served(); waited > limit || all.Served() > most*limit {
			return fmt.Errorf("%w for %v: %s", ErrOver, waited.Round(time.Second), said)
		}
		if now := look(); now != said {
			said, same = now, Clock{}
			same.Served()
		}
	}
	return nil
}

// tick is the interval at which a context checks the clock.
const tick = 100 * time.Millisecond

// WithLimit returns a context that ends after so much served time, with ErrOver as its cause, and a function that
// restarts the count.
func WithLimit(ctx context.Context, limit time.Duration) (limited context.Context, progress, cancel func()) {
	limited, end := context.WithCancelCause(ctx)
	var beats atomic.Int64
	go func() {
		var clock Clock
		seen := int64(0)
		for clock.Served() < limit && limited.Err() == nil {
			select {
			case <-limited.Done():
			case <-time.After(tick):
			}
			if now := beats.Load(); now != seen {
				seen, clock = now, Clock{}
			}
		}
		end(fmt.Errorf("%w for %v", ErrOver, limit))
	}()
	return limited, func() { beats.Add(1) }, func() { end(context.Canceled) }
}
