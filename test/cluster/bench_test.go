package cluster

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/bench"
)

// TestBenchSchedule runs a tiny `berth bench schedule`: it checks itself that
// pinned pods got placements and the others none.
func TestBenchSchedule(t *testing.T) {
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
	out := filepath.Join(logs(t), "bench")
	report, err := bench.RunSchedule(t.Context(), bench.ScheduleOptions{
		Programs: bench.SchedulePrograms{Programs: programs.Programs, Scheduler: programs.Scheduler},
		Nodes:    []int{20}, Percentages: []int{0, 100}, Pods: 40, Repetitions: 1, Out: out,
	})
	if err != nil {
		t.Fatal(err)
	}
	if want := 2 * len(bench.ScheduleArms()); len(report.Runs) != want {
		t.Fatalf("%d runs, want %d", len(report.Runs), want)
	}
	computed := 0.0
	for _, run := range report.Runs {
		if run.Pods != 36 || run.Seconds <= 0 || run.PeakMiB < 10 {
			t.Errorf("run %+v", run)
		}
		computed += run.CPUSeconds
	}
	if computed <= 0 { // One run may be over within a tick of the kernel's count.
		t.Error("no scheduler has computed anything")
	}
	for _, goal := range report.Goals {
		if goal.Verdict != bench.Open {
			t.Errorf("40 pods judge %q: %s", goal.Goal, goal.Verdict)
		}
	}
}
