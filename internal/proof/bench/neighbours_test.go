package bench

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// crowded returns options of a run whose arms are simulated. With the limit only, each request of the neighbours takes
// three times as long, except for those of the last neighbour.
func crowded(t *testing.T, neighbours int) BurstOptions {
	t.Helper()
	o := savedOptions()
	o.Neighbours, o.Out, o.Limit = neighbours, t.TempDir(), 0.5
	o.Arms = []string{Unlimited, QuotaOnly, Berth, Unlimited2}
	o.Run = func(_ context.Context, a Arm) (Outcome, error) {
		outcome := Outcome{Samples: samples(len(a.Arrivals), o.Duration, time.Millisecond, 2*time.Millisecond), Elapsed: o.Duration}
		for i, arrivals := range a.Neighbours {
			n := Outcome{Samples: samples(len(arrivals), o.Duration, time.Millisecond, 2*time.Millisecond), CPU: time.Second, Elapsed: o.Duration}
			if a.Name == QuotaOnly && i < len(a.Neighbours)-1 {
				n.Samples = samples(len(arrivals), o.Duration, 3*time.Millisecond, 6*time.Millisecond)
				n.Throttled, n.Periods = 100, 200
			}
			outcome.Beside = append(outcome.Beside, n)
		}
		return outcome, nil
	}
	return o
}

// TestNeighboursSamples: the raw samples of each neighbour are in a file of its own.
func TestNeighboursSamples(t *testing.T) {
	o := crowded(t, 2)
	o.Repetitions = 1
	if _, err := RunBurst(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(o.Out, "run01-berth*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, file := range files {
		names = append(names, filepath.Base(file))
		if info, err := os.Stat(file); err != nil || info.Size() < 1000 {
			t.Errorf("%s: %v, %v", file, info, err)
		}
	}
	if diff := cmp.Diff([]string{"run01-berth-neighbour-1.csv", "run01-berth-neighbour-2.csv", "run01-berth.csv"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestNeighboursInSummary: an arm has its own figures of each neighbour, over all repetitions.
func TestNeighboursInSummary(t *testing.T) {
	r, err := RunBurst(t.Context(), crowded(t, 3))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string][]NeighbourSummary{
		Berth:     {{Served: Served{P99: new(2.0)}, MeanCPUs: 0.1}, {Served: Served{P99: new(2.0)}, MeanCPUs: 0.1}, {Served: Served{P99: new(2.0)}, MeanCPUs: 0.1}},
		QuotaOnly: {{Served: Served{P99: new(6.0)}, Throttled: 300, Periods: 600, MeanCPUs: 0.1}, {Served: Served{P99: new(6.0)}, Throttled: 300, Periods: 600, MeanCPUs: 0.1}, {Served: Served{P99: new(2.0)}, MeanCPUs: 0.1}},
	} {
		got := arm(r, name).Neighbours
		for i := range got {
			if n := got[i].Requests; n < 1000 {
				t.Errorf("%s, neighbour %d: %d requests", name, i+1, n)
			}
			got[i].Served = Served{P99: got[i].P99}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
