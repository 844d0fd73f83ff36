package load_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// TestPi compares the result with the known digits, and the result of one thread with that of many.
func TestPi(t *testing.T) {
	const known = "3.14159265358979323846264338327950288419716939937510"
	for _, threads := range []int{1, 3, 100} {
		if got := load.Pi(50, threads); got != known {
			t.Errorf("%d threads: %s, want %s", threads, got, known)
		}
	}
	one, many := load.Pi(3000, 1), load.Pi(3000, 500)
	if one != many || !strings.HasPrefix(one, known) {
		t.Error("3,000 digits depend on the number of threads")
	}
	if took, err := load.TimePi(t.Context(), 10, 2, time.Nanosecond); err != nil || took <= 0 {
		t.Errorf("took %s, error %v", took, err)
	}
	for _, bad := range [][2]int{{0, 1}, {1, 0}, {load.MaxDigits + 1, 1}, {1, load.MaxThreads + 1}} {
		if _, err := load.TimePi(t.Context(), bad[0], bad[1], 0); !errors.Is(err, load.ErrTooMuch) {
			t.Errorf("%v: error %v", bad, err)
		}
	}
}
