package reconcile

import (
	"testing"
	"time"
)

func TestRetry(t *testing.T) {
	for most, waits := range map[time.Duration][]time.Duration{
		LastRetry: {
			time.Second, 2 * time.Second, 4 * time.Second, 8 * time.Second, 16 * time.Second, 30 * time.Second, 30 * time.Second,
		},
		LastLowering: {time.Second, 2 * time.Second, 4 * time.Second, 4 * time.Second},
	} {
		var r Retry
		now := time.Hour
		if r.Held(0) || r.Again() {
			t.Error("held before it failed")
		}
		for _, wait := range waits {
			r.Failed(now, most)
			if r.At() != now+wait || !r.Held(now+wait-1) || r.Held(now+wait) || !r.Again() {
				t.Errorf("at most %s: %s after the failure, want %s", most, r.At()-now, wait)
			}
			now = r.At()
		}
	}
}
