package cluster

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/proof/bench"
)

// scheduleRuns holds the runs and goals of a report of `berth bench schedule`.
type scheduleRuns struct {
	Runs []struct {
		Arm, SideBySideWith          string
		Pods, Place                  int
		Seconds, CPUSeconds, PeakMiB float64
	}
	Goals      []bench.Goal
	Incomplete bool
}

// runSchedule runs a tiny `berth bench schedule` with 20 nodes, and 40 pods if the options have no number.
func runSchedule(ctx context.Context, t *testing.T, o bench.ScheduleOptions) (r scheduleRuns, err error) {
	t.Helper()
	if testing.Short() {
		t.Skip("starts a control plane")
	}
	programs, err := Find()
	switch {
	case errors.Is(err, ErrNotBuilt) && os.Getenv("BERTH_CLUSTER") != "require":
		t.Skip(err)
	case err != nil:
		t.Fatal(err)
	}
	o.Programs = bench.SchedulePrograms{
		Etcd: programs.Etcd, APIServer: programs.APIServer, Scheduler: programs.Scheduler, Measure: programs.BenchSchedule,
	}
	o.Nodes, o.Pods, o.Out = []int{20}, cmp.Or(o.Pods, 40), filepath.Join(logs(t), "bench")
	report, err := bench.RunSchedule(ctx, o)
	if report == nil {
		t.Fatalf("no report: %v", err)
	}
	encoded, encodeErr := json.MarshalIndent(report, "", "  ")
	if encodeErr != nil {
		t.Fatal(encodeErr)
	}
	if err := json.Unmarshal(encoded, &r); err != nil {
		t.Fatal(err)
	}
	summary, readErr := os.ReadFile(filepath.Join(o.Out, "summary.json"))
	if readErr != nil || string(summary) != string(encoded)+"\n" {
		t.Errorf("summary.json is not the report: %v\n%s\n%s", readErr, summary, encoded)
	}
	return r, err
}

// TestBenchSchedule runs a tiny `berth bench schedule`. The benchmark itself checks that pinned pods got placements and
// that the other pods got none. In one arm a pod that hides CPUs gets its placement first.
func TestBenchSchedule(t *testing.T) {
	report, err := runSchedule(t.Context(), t, bench.ScheduleOptions{Percentages: []int{0, 100}, Options: bench.Options{Repetitions: 1}})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) != 10 || report.Incomplete {
		t.Fatalf("%d runs, want two percentages with five arms", len(report.Runs))
	}
	computed, places := 0.0, map[int]int{}
	for _, run := range report.Runs {
		if run.Pods != 36 || run.Seconds <= 0 || run.PeakMiB < 10 {
			t.Errorf("run %+v", run)
		}
		computed += run.CPUSeconds
		places[run.Place]++
	}
	if computed <= 0 { // A run may end within one tick of the kernel's CPU accounting.
		t.Error("no scheduler has computed anything")
	}
	if len(places) != 5 {
		t.Errorf("the arms are at the places %v", places)
	}
	for _, goal := range report.Goals {
		if goal.Verdict != bench.Open {
			t.Errorf("40 pods judge %q: %s", goal.Goal, goal.Verdict)
		}
	}
}

// TestBenchScheduleSideBySide runs both arms of two pairs at the same time, with enough pods that both are warm before
// one has bound all. No run may count pods of the other arm.
func TestBenchScheduleSideBySide(t *testing.T) {
	report, err := runSchedule(t.Context(), t, bench.ScheduleOptions{
		Percentages: []int{0}, Pods: 300, SideBySide: true, Arms: []string{bench.ScheduleOff, bench.ScheduleHiding},
		Options: bench.Options{Repetitions: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(report.Runs) != 4 || report.Incomplete {
		t.Fatalf("%d runs, want two pairs", len(report.Runs))
	}
	for i := 0; i < len(report.Runs); i += 2 {
		one, other := report.Runs[i], report.Runs[i+1]
		if one.SideBySideWith != other.Arm || other.SideBySideWith != one.Arm || one.Place != other.Place || one.Seconds != other.Seconds {
			t.Errorf("runs %+v and %+v are no pair", one, other)
		}
		if least, most := min(one.Pods, other.Pods), max(one.Pods, other.Pods); least <= 0 || most > 270 {
			t.Errorf("runs %+v and %+v: want 1 to 270 pods", one, other)
		}
		if one.CPUSeconds <= 0 || other.CPUSeconds <= 0 {
			t.Errorf("runs %+v and %+v: no scheduler computed", one, other)
		}
	}
}

// TestBenchScheduleInterrupted interrupts the benchmark in its second run. The benchmark must still report the first
// run.
func TestBenchScheduleInterrupted(t *testing.T) {
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	report, err := runSchedule(ctx, t, bench.ScheduleOptions{
		Percentages: []int{0}, Options: bench.Options{Repetitions: 2, Progress: func(what string) {
			if strings.HasSuffix(what, "Berth ordinary") {
				interrupt()
			}
		}},
	})
	if !errors.Is(err, context.Canceled) || len(report.Runs) != 1 || !report.Incomplete {
		t.Errorf("%v, report %+v", err, report)
	}
}
