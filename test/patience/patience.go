// Package patience bounds the waits of tests by what the machine did, not by its clock, so that
// a machine with too much to do makes a test slower and not red.
//
// A clock that counts served time runs as fast as the machine serves: where 20 threads are
// runnable on two CPUs each gets a tenth of one, and ten seconds count as one. On a machine that
// waits too, it runs as fast as any other clock. Until counts anew whenever what it waits for
// has changed.
package patience

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// ErrOver means that a wait was in vain.
var ErrOver = errors.New("no progress")

// most is how often a wait may begin anew: what changes for ever makes no progress either.
const most = 5

// Clock counts served time. The zero value begins with the first reading.
type Clock struct {
	last   time.Time
	served time.Duration
}

// Served is how much time the machine had, since the first reading, for each thread that wanted
// some. It is to be read often: how many want some is looked at in each reading only.
func (c *Clock) Served() time.Duration {
	now := time.Now()
	if !c.last.IsZero() {
		c.served += time.Duration(float64(now.Sub(c.last)) * share(runnable(), runtime.NumCPU()))
	}
	c.last = now
	return c.served
}

// share is what each of so many threads gets of a CPU.
func share(threads, cpus int) float64 { return min(1, float64(cpus)/float64(max(1, threads))) }

// runnable is how many threads of the machine run or want to, or 0 where the kernel does not say.
func runnable() int {
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	return parse(string(text))
}

// parse reads the number before the slash in "0.20 0.18 0.12 3/80 11206".
func parse(loadavg string) int {
	fields := strings.Fields(loadavg)
	if len(fields) < 4 {
		return 0
	}
	running, _, _ := strings.Cut(fields[3], "/")
	n, err := strconv.Atoi(running)
	if err != nil {
		return 0
	}
	return n
}

// Until calls look until it returns nothing. When it said the same for so long, in served time,
// the error is ErrOver with what it said.
func Until(ctx context.Context, limit, every time.Duration, look func() string) error {
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
