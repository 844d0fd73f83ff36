package main

import (
	"strings"
	"testing"
	"time"
)

func TestArguments(t *testing.T) {
	t.Parallel()
	o := options{reserve: 50, duration: 4 * time.Second, repetitions: 3}
	const want = "bench interference --quick -o json --reserve 50 --duration 4s --reps 3"
	if got := strings.Join(o.arguments(), " "); got != want {
		t.Errorf("%s, want %s", got, want)
	}
	o.rate = 12.5
	if got := strings.Join(o.arguments(), " "); got != want+" --rate 12.5" {
		t.Errorf("with a rate: %s", got)
	}
}

// TestIsJudgeable checks that the arms in which server and hogs have separate CPUs are omitted.
func TestIsJudgeable(t *testing.T) {
	t.Parallel()
	for arm, want := range map[string]bool{
		"alone": true, "idle": true, "idle with reserve": true, "alone again": true, "cores": false, "alone on those cores": false,
	} {
		if isJudgeable(arm) != want {
			t.Errorf("%s: %v", arm, !want)
		}
	}
}
