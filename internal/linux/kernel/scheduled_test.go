package kernel

import (
	"context"
	"errors"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"
)

// TestSleeperThatDoesNotRun checks that the wait for a thread which does not run ends at the bound, without a question
// to the kernel.
func TestSleeperThatDoesNotRun(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		began := time.Now()
		_, err := onSleeper(answersIn, func(func()) { <-free }, func(context.Context, int) (Scheduled, error) {
			t.Error("asked")
			return Scheduled{}, nil
		})
		if took := time.Since(began); !errors.Is(err, ErrStarved) || took != answersIn {
			t.Errorf("%v after %v", err, took)
		}
	})
}

// TestSleeperThatDoesNotEnd checks that a thread which does not run again after its answer delays the answer no longer
// than the bound.
func TestSleeperThatDoesNotEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		free := make(chan struct{})
		defer close(free)
		began := time.Now()
		s, err := onSleeper(answersIn, func(f func()) {
			f()
			<-free
		}, func(context.Context, int) (Scheduled, error) { return Scheduled{Slice: time.Millisecond}, nil })
		if took := time.Since(began); err != nil || s.Slice != time.Millisecond || took > answersIn {
			t.Errorf("%+v, %v after %v", s, err, took)
		}
	})
}

// TestSleeps checks that a thread counts as asleep only once the kernel says so.
func TestSleeps(t *testing.T) {
	t.Parallel()
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		states []string // the last state stays
		fails  error
		want   error
	}{
		"at once":  {[]string{"S"}, nil, nil},
		"runs yet": {[]string{"R", "R", "S"}, nil, nil},
		"never":    {[]string{"R"}, nil, ErrStarved},
		"gone":     {[]string{""}, broken, broken},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				late, cancel := context.WithTimeout(t.Context(), answersIn)
				defer cancel()
				looks := 0
				err := sleeps(late, 1, func(int) (string, error) {
					state := tt.states[min(looks, len(tt.states)-1)]
					looks++
					return state, tt.fails
				})
				if !errors.Is(err, tt.want) || looks < len(tt.states) {
					t.Errorf("%v after %d looks", err, looks)
				}
			})
		})
	}
}

// TestThreadState reads the state of a thread from the kernel: this thread runs.
func TestThreadState(t *testing.T) {
	t.Parallel()
	OnThread(func() {
		if state, err := threadState(unix.Gettid()); err != nil || state != "R" {
			t.Errorf("%q, %v", state, err)
		}
	})
	if _, err := threadState(0); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}
