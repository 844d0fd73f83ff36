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
		if got := (machine{runnable: test.threads, cpus: test.cpus}).share(); got != test.want {
			t.Errorf("%d threads on %d CPUs get %v each, want %v", test.threads, test.cpus, got, test.want)
		}
	}
	if look().runnable < 1 {
		t.Error("nothing runs here, not even this test")
	}
}

// TestKept compares two moments of a machine: the clock must lose the time that the hypervisor and the disk took.
func TestKept(t *testing.T) {
	start := time.Now()
	for name, test := range map[string]struct {
		then, now machine
		want      float64
	}{
		"idle":           {machine{at: start, wanted: 50}, machine{at: start.Add(time.Second), wanted: 50}, 1},
		"busy":           {machine{at: start}, machine{at: start.Add(time.Second), wanted: 200}, 1},
		"half is stolen": {machine{at: start, stolen: 7, wanted: 7}, machine{at: start.Add(time.Second), stolen: 107, wanted: 207}, 0.5},
		"all is stolen":  {machine{at: start}, machine{at: start.Add(time.Second), stolen: 200, wanted: 200}, 0},
		"a slow disk":    {machine{at: start, stalled: time.Minute}, machine{at: start.Add(time.Second), stalled: time.Minute + 250*time.Millisecond}, 0.75},
		"both":           {machine{at: start}, machine{at: start.Add(time.Second), stolen: 50, wanted: 100, stalled: time.Second / 2}, 0.25},
		"no time":        {machine{at: start}, machine{at: start, stalled: time.Second}, 1},
		"started again":  {machine{at: start, stolen: 9, wanted: 9, stalled: 9}, machine{at: start.Add(time.Second)}, 1},
	} {
		if got := test.now.kept(test.then); got != test.want {
			t.Errorf("%s: %v of the time counts, want %v", name, got, test.want)
		}
	}
}

func TestWhatTheKernelSays(t *testing.T) {
	for text, want := range map[string]int{"0.20 0.18 0.12 3/80 11206\n": 3, "": 0, "1 2 3 x/y 5": 0} {
		if got := runnable(text); got != want {
			t.Errorf("runnable(%q) = %d, want %d", text, got, want)
		}
	}
	for text, want := range map[string][2]int64{
		"cpu  10 20 30 1000 2000 40 50 60 7 8\ncpu0 1 1 1 1 1 1 1 1 1 1\n": {210, 60},
		"": {}, "cpu 1 2 3 4\n": {}, "intr 1 2 3 4 5 6 7 8 9": {},
	} {
		if wanted, stolen := ticks(text); wanted != want[0] || stolen != want[1] {
			t.Errorf("ticks(%q) = %d, %d, want %d", text, wanted, stolen, want)
		}
	}
	for text, want := range map[string]time.Duration{
		"some avg10=1.00 avg60=0.40 avg300=0.10 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\n": 2500 * time.Millisecond,
		"": 0, "full total=x": 0,
	} {
		if got := stalled(text); got != want {
			t.Errorf("stalled(%q) = %v, want %v", text, got, want)
		}
	}
}

// TestUntilCountsWhatDoesNotChange checks that Until waits longer than the limit while there is progress, and not
// longer without progress.
func TestUntilCountsWhatDoesNotChange(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		steps := 0
		err := until(t.Context(), 2*time.Second, 100*time.Millisecond, func() string {
			if steps++; steps == 31 {
				return ""
			}
			return fmt.Sprint("step ", steps/10)
		})
		if err != nil {
			t.Errorf("with progress: %v", err)
		}
	})
	err := until(t.Context(), 20*time.Millisecond, time.Millisecond, func() string { return "stuck" })
	if !errors.Is(err, ErrOver) || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("without progress: %v, want %v with what was said", err, ErrOver)
	}
	change := 0
	err = until(t.Context(), 20*time.Millisecond, time.Millisecond, func() string { change++; return fmt.Sprint(change) })
	if !errors.Is(err, ErrOver) {
		t.Errorf("changes for ever: %v, want %v", err, ErrOver)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := Until(ended, time.Millisecond, func() string { return "x" }); !errors.Is(err, context.Canceled) {
		t.Errorf("in a context that has ended: %v", err)
	}
}

// TestWithLimitBeginsAnew uses a fake clock. The machine's load is real.
func TestWithLimitBeginsAnew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, progress, cancel := WithLimit(t.Context(), 10*tick)
		defer cancel()
		for range 5 {
			time.Sleep(5 * tick)
			progress()
		}
		if ctx.Err() != nil {
			t.Errorf("ended with progress: %v", context.Cause(ctx))
		}
		<-ctx.Done()
		if !errors.Is(context.Cause(ctx), ErrOver) {
			t.Errorf("cause %v, want %v", context.Cause(ctx), ErrOver)
		}
		other, _, cancelOther := WithLimit(t.Context(), time.Hour)
		cancelOther()
		<-other.Done()
		if !errors.Is(context.Cause(other), context.Canceled) {
			t.Errorf("cause %v", context.Cause(other))
		}
	})
}
