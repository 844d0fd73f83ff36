package patience

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestShareOfABusyMachine(t *testing.T) {
	for _, test := range []struct {
		threads, cpus int
		want          float64
	}{{0, 2, 1}, {1, 2, 1}, {2, 2, 1}, {20, 2, 0.1}, {8, 4, 0.5}} {
		if got := share(test.threads, test.cpus); got != test.want {
			t.Errorf("share(%d, %d) = %v, want %v", test.threads, test.cpus, got, test.want)
		}
	}
	for text, want := range map[string]int{"0.20 0.18 0.12 3/80 11206\n": 3, "": 0, "1 2 3 x/y 5": 0} {
		if got := parse(text); got != want {
			t.Errorf("parse(%q) = %d, want %d", text, got, want)
		}
	}
	if runnable() < 1 {
		t.Error("nothing runs here, not even this test")
	}
}

// TestUntilCountsWhatDoesNotChange waits longer than the limit while there is progress, and no
// longer when there is none.
func TestUntilCountsWhatDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		err := Until(t.Context(), 2*time.Second, 100*time.Millisecond, func() string {
			if steps++; steps == 31 {
				return ""
			}
			return fmt.Sprint("step ", steps/10)
		})
		if err != nil {
			t.Errorf("with progress: %v", err)
		}
	})
	err := Until(t.Context(), 20*time.Millisecond, time.Millisecond, func() string { return "stuck" })
	if !errors.Is(err, ErrOver) || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("without progress: %v, want %v with what was said", err, ErrOver)
	}
	change := 0
	err = Until(t.Context(), 20*time.Millisecond, time.Millisecond, func() string { change++; return fmt.Sprint(change) })
	if !errors.Is(err, ErrOver) {
		t.Errorf("changes for ever: %v, want %v", err, ErrOver)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ended, time.Minute, time.Millisecond, func() string { return "x" }); !errors.Is(err, context.Canceled) {
		t.Errorf("in a context that has ended: %v", err)
	}
}

func TestWithLimitBeginsAnew(t *testing.T) {
	ctx, progress, cancel := WithLimit(t.Context(), 300*time.Millisecond)
	defer cancel()
	for range 5 {
		time.Sleep(150 * time.Millisecond)
		progress()
	}
	if ctx.Err() != nil {
		t.Errorf("ended with progress: %v", context.Cause(ctx))
	}
	<-ctx.Done()
	if !errors.Is(context.Cause(ctx), ErrOver) {
		t.Errorf("cause %v, want %v", context.Cause(ctx), ErrOver)
	}
	other, _, cancel := WithLimit(t.Context(), time.Hour)
	cancel()
	<-other.Done()
	if !errors.Is(context.Cause(other), context.Canceled) {
		t.Errorf("cause %v", context.Cause(other))
	}
}
