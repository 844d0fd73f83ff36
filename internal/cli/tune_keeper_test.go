package cli

import (
	"errors"
	"testing"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
)

// TestOneKeeperOfAComparison: a comparison starts one keeper for all of its runs, and retries only if the start failed.
func TestOneKeeperOfAComparison(t *testing.T) {
	started := 0
	keep := once(func(tuner.Applied) error {
		if started++; started == 1 {
			return errors.New("no memory")
		}
		return nil
	})
	for i, want := range []int{1, 2, 2, 2} {
		if err := keep(tuner.Applied{}); (err != nil) != (i == 0) || started != want {
			t.Errorf("run %d: started %d times, %v", i, started, err)
		}
	}
}
