package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/proof/load"
)

// TestArmsElsewhere: the caller runs each arm once per repetition, in a rotating order and with the same arrivals. The
// report contains the caller's outcomes.
func TestArmsElsewhere(t *testing.T) {
	arms := []string{Unlimited, QuotaOnly, Berth, Unlimited2}
	out := t.TempDir()
	var order []string
	var last []time.Duration
	report, err := RunBurst(t.Context(), BurstOptions{
		LoadOptions: LoadOptions{Options: Options{Repetitions: 2, Out: out}, Pattern: load.Pattern{Seed: 1, Rate: 5, Batch: 40}, Duration: 6 * time.Second},
		Limit:       0.5, Arms: arms,
		Run: func(_ context.Context, a Arm) (Outcome, error) {
			if len(order)%len(arms) != 0 && !cmp.Equal(last, a.Arrivals) {
				t.Errorf("arm %s has other arrivals than the one before", a.Name)
			}
			order, last = append(order, a.Name), a.Arrivals
			return Outcome{Samples: samples(len(a.Arrivals), 6*time.Second, time.Millisecond, 2*time.Millisecond), Periods: 7}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := []string{Unlimited, QuotaOnly, Berth, Unlimited2, QuotaOnly, Berth, Unlimited2, Unlimited}
	if diff := cmp.Diff(want, order); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
	for i, a := range report.Arms {
		if a.Name != arms[i] || a.Periods != 14 || a.Requests == 0 {
			t.Errorf("%+v", a)
		}
	}
	files, err := filepath.Glob(filepath.Join(out, "run*.csv"))
	if _, missing := os.Stat(filepath.Join(out, "summary.json")); err != nil || missing != nil || len(files) != 8 {
		t.Errorf("raw samples: %q, %v, %v", files, err, missing)
	}
}
