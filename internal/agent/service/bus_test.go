package service

import (
	"context"
	"errors"
	"testing"
)

// TestWait: a job of systemd that failed, or does not end, is an error.
func TestWait(t *testing.T) {
	ended := func(result string) <-chan string {
		done := make(chan string, 1)
		done <- result
		return done
	}
	if err := wait(t.Context(), "start", ended("done")); err != nil {
		t.Error(err)
	}
	for _, result := range []string{"failed", "timeout", "canceled", "dependency"} {
		if err := wait(t.Context(), "start", ended(result)); !errors.Is(err, ErrJob) {
			t.Errorf("%s: %v", result, err)
		}
	}
	late, cancel := context.WithCancel(t.Context())
	cancel()
	if err := wait(late, "start", make(chan string)); !errors.Is(err, context.Canceled) {
		t.Errorf("a job that does not end: %v", err)
	}
}
