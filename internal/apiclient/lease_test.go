package apiclient_test

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/apiclient"
)

func TestLeaseAge(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	for ago, want := range map[time.Duration]bool{0: false, 180 * time.Second: false, 180*time.Second + 1: true, -time.Hour: false} {
		if age, silent := apiclient.LeaseAge(now.Add(-ago), now); age != ago || silent != want {
			t.Errorf("renewed %v ago: %v, %t", ago, age, silent)
		}
	}
}
