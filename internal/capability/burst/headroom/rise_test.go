package headroom_test

import (
	"math"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// TestRise checks that the minimum since the first value is used, and that an unknown value counts as the first and
// stays.
func TestRise(t *testing.T) {
	t.Parallel()
	var r headroom.Rise
	if r.Lasted(time.Hour, time.Second) {
		t.Error("nothing has lasted")
	}
	for i, c := range []struct {
		at      time.Duration
		left    unit.CPUs
		isLeast bool
		least   unit.CPUs
		lasted  bool
	}{
		{time.Minute, 3, true, 3, false},
		{time.Minute + time.Second, 4, false, 3, false},
		{time.Minute + 9*time.Second, 2, true, 2, false},
		{time.Minute + 10*time.Second, 2, false, 2, true},
	} {
		if isLeast := r.See(c.at, c.left); isLeast != c.isLeast || r.Least != c.least || r.Lasted(c.at, 10*time.Second) != c.lasted {
			t.Errorf("%d: %t, least %v, lasted %t, want %+v", i, isLeast, r.Least, r.Lasted(c.at, 10*time.Second), c)
		}
	}
	unknown := headroom.Rise{}
	unknown.See(0, unit.CPUs(math.NaN()))
	if unknown.See(time.Second, 2) || !unknown.Lasted(10*time.Second, 10*time.Second) {
		t.Errorf("%+v", unknown)
	}
}
