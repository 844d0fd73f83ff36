// Package patience bounds the waits of tests by what the machine did, not by its clock, so that
// a machine with too much to do makes a test slower and not red.
//
// A Clock counts served time. It slows down where threads wait for a CPU (20 runnable threads on
// two CPUs make ten seconds count as one), where the hypervisor takes CPU time away (steal), and
// where all tasks wait for the disk. On an idle machine it runs as fast as any other clock. Until
// has no limit to choose: it ends when nothing has changed for so long that nothing moves any more.
package patience

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"
)

// ErrOver means that a wait was in vain.
var ErrOver = errors.New("no progress")

const (
	// hang is how long a wait goes on without progress, in served time. A healthy program reaches
	// what it is waited for within a tenth of it.
	hang = 5 * time.Minute
	// most is how many hangs a wait lasts at most: what changes for ever makes no progress either.
	most = 6
)

// Clock counts served time. The zero value begins with the first reading.
type Clock struct {
	served, queued time.Duration // Until the window began, and since then before what it lost.
	window, last   machine
}

// Served returns how much time the machine had, since the first reading, for each thread that
// wanted some. Callers read it often: each reading looks once at how many threads want some.
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

// Until calls look until it returns "". It begins to count again whenever look says something
// else; the error is ErrOver, with what look said last, once nothing has moved for long.
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

// tick is how often a context looks at the clock.
const tick = 100 * time.Millisecond

// WithLimit returns a context that ends when it was served for so long, with ErrOver as its cause,
// and a function that begins the count anew.
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
