package agent

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestCumulative compares buckets as Prometheus wants them with those that were counted.
func TestCumulative(t *testing.T) {
	bounds := []time.Duration{time.Millisecond, 10 * time.Millisecond}
	got := cumulative(bounds, []uint64{3, 2, 7})
	if diff := cmp.Diff(map[float64]uint64{0.001: 3, 0.01: 5}, got); diff != "" {
		t.Error(diff)
	}
}
