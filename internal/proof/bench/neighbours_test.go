package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/proof/load"
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

// crowdedReport is a report with enough requests for a verdict on three neighbours.
func crowdedReport(t *testing.T) *Report {
	t.Helper()
	o := crowded(t, 3)
	o.Duration = 80 * time.Second
	r, err := RunBurst(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestNeighboursTable(t *testing.T) {
	var out bytes.Buffer
	if err := WriteTable(&out, crowdedReport(t)); err != nil {
		t.Fatal(err)
	}
	golden(t, "neighbours.txt", out.Bytes())
}

// TestNeighboursGoals: the worst neighbour decides, and none may have too few requests.
func TestNeighboursGoals(t *testing.T) {
	wide, worse := &load.Ratio{Estimate: 1, Low: 0.9, High: 1.06}, &load.Ratio{Estimate: 1.07, Low: 1.06, High: 1.08}
	measured, err := json.Marshal(crowdedReport(t))
	if err != nil {
		t.Fatal(err)
	}
	noise := func(r *Report) {
		for i := range r.Ratios {
			r.Ratios[i].Median = &load.Ratio{Estimate: 1, Low: 0.8, High: 1.2}
		}
	}
	once := func(r *Report, stretches int) {
		r.Repetitions = 1
		for i := range r.NeighbourRatios {
			r.NeighbourRatios[i].Stretches = stretches
		}
	}
	for name, c := range map[string]struct {
		change func(*Report)
		want   []Verdict
	}{
		// Order: throttled periods of all, p99 of each neighbour.
		"all in reach":           {func(*Report) {}, []Verdict{Met, Met}},
		"one is worse":           {func(r *Report) { r.NeighbourRatios[1].Median = worse }, []Verdict{Met, Missed}},
		"one may be worse":       {func(r *Report) { r.NeighbourRatios[0].Median = wide }, []Verdict{Met, Missed}},
		"one may be, with noise": {func(r *Report) { noise(r); r.NeighbourRatios[0].Median = wide }, []Verdict{Met, Open}},
		"one is worse, another may be, with noise": {
			func(r *Report) {
				noise(r)
				r.NeighbourRatios[0].Median, r.NeighbourRatios[2].Median = worse, &load.Ratio{Estimate: 1, Low: 0.9, High: 1.3}
			},
			[]Verdict{Met, Missed},
		},
		"one has too few requests": {func(r *Report) { r.Arms[2].Neighbours[2].Requests = 9_999 }, []Verdict{Met, Open}},
		"one has no median":        {func(r *Report) { r.NeighbourRatios[2].Median = nil }, []Verdict{Met, Open}},
		"two repetitions":          {func(r *Report) { r.Repetitions = 2 }, []Verdict{Met, Open}},
		"one short repetition":     {func(r *Report) { once(r, 29) }, []Verdict{Met, Open}},
		"one long repetition":      {func(r *Report) { once(r, 30) }, []Verdict{Met, Met}},
		"one is throttled":         {func(r *Report) { r.Arms[2].Neighbours[0].Throttled = 7 }, []Verdict{Missed, Met}},
		"hardly any throttling to save": {
			func(r *Report) { r.Arms[1].Neighbours[0].Throttled, r.Arms[1].Neighbours[1].Throttled = 150, 149 },
			[]Verdict{Open, Met},
		},
		"no neighbours": {func(r *Report) { r.NeighbourRatios = nil }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			r := &Report{} // a copy for each case
			if err := json.Unmarshal(measured, r); err != nil {
				t.Fatal(err)
			}
			c.change(r)
			var got []Verdict
			for _, g := range judge(r) {
				if strings.Contains(g.Goal, "neighbour") {
					got = append(got, g.Verdict)
				}
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

// TestNeighboursOfFewerArms: without Berth or the limit only, there is nothing to compare, and no field in the JSON.
func TestNeighboursOfFewerArms(t *testing.T) {
	for _, arms := range [][]string{{Unlimited, Berth}, {Unlimited, QuotaOnly}} {
		o := crowded(t, 2)
		o.Arms = arms
		r, err := RunBurst(t.Context(), o)
		if err != nil || len(r.NeighbourRatios) != 0 || len(neighbourGoals(r)) != 0 {
			t.Errorf("%q: %v, %+v", arms, err, r)
		}
	}
	r, err := RunBurst(t.Context(), crowded(t, 0))
	if err != nil {
		t.Fatal(err)
	}
	if data, err := json.Marshal(r); err != nil || strings.Contains(string(data), "neighbour") {
		t.Errorf("without neighbours: %v\n%s", err, data)
	}
}
