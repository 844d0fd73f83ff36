package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// golden compares got with testdata/name.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// scheduleReport is a report whose figures are known.
func scheduleReport() *Report {
	r := &Report{
		Machine: bench.Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"},
		Setup:   Setup{Pods: 2000, PodCPUs: 4, Repetitions: 6, QPS: 5000},
		Notes:   []string{"a note"},
	}
	for _, percentage := range []int{0, 100} {
		for repetition := range 6 {
			for i, arm := range allArms() {
				slower := 1 + 0.06*float64(i)
				r.Runs = append(r.Runs, Run{
					Nodes: 1000, Percentage: percentage, Repetition: repetition, Arm: arm,
					Pods: 1800, Seconds: 6 * slower, CPUSeconds: 4 * slower, PeakMiB: 150,
				})
			}
		}
	}
	r.Comparisons = compareSchedules(r.Runs)
	r.Goals = judgeSchedule(r)
	return r
}

func TestScheduleTable(t *testing.T) {
	var out bytes.Buffer
	if err := writeTable(&out, scheduleReport()); err != nil {
		t.Fatal(err)
	}
	golden(t, "schedule.txt", out.Bytes())
}

func TestScheduleGoals(t *testing.T) {
	verdicts := func(r *Report) (list []bench.Verdict) {
		for _, g := range judgeSchedule(r) {
			list = append(list, g.Verdict)
		}
		return list
	}
	r := scheduleReport()
	// Each percentage: ordinary pods by time and by CPU (0.943), pinned (0.893).
	want := []bench.Verdict{bench.Missed, bench.Missed, bench.Missed, bench.Missed, bench.Missed, bench.Missed, bench.Missed, bench.Missed}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("6 %% slower (-want +got):\n%s", diff)
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Ratio = &load.Ratio{Estimate: 0.97, Low: 0.92, High: 1.01}
	}
	want = []bench.Verdict{bench.Missed, bench.Missed, bench.Met, bench.Met, bench.Missed, bench.Missed, bench.Met, bench.Met}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("judged by the lower end (-want +got):\n%s", diff)
	}
	r.Comparisons[0].Repetitions = 2
	if diff := cmp.Diff([]bench.Verdict{bench.Open}, verdicts(r)[:1]); diff != "" {
		t.Errorf("two repetitions (-want +got):\n%s", diff)
	}
}

// TestSchedulePartial checks that an interrupted benchmark reports its finished runs, and compares arms over the
// repetitions that have both.
func TestSchedulePartial(t *testing.T) {
	o := measurement{Nodes: []int{1000, 5000}, Percentages: []int{0}, Options: bench.Options{Repetitions: 6}}
	r := &Report{Machine: bench.Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"}, Setup: Setup{
		Pods: 1000, PodCPUs: 4, Repetitions: 6, QPS: 5000,
	}}
	for repetition := range 3 {
		for _, arm := range scheduleOrder(repetition) {
			r.Runs = append(r.Runs, Run{
				Nodes: 1000, Repetition: repetition, Arm: arm, Pods: 900, Seconds: 2, CPUSeconds: 1, PeakMiB: 150,
			})
		}
	}
	r.Runs = r.Runs[:len(r.Runs)-2] // the third repetition has only pinned pods
	o.conclude(r)
	for _, c := range r.Comparisons {
		if c.Repetitions != 2 || c.Ratio == nil || c.Ratio.Estimate != 1 {
			t.Errorf("%s, %s: %d repetitions, %+v", c.Arm, c.Metric, c.Repetitions, c.Ratio)
		}
	}
	if !r.Incomplete {
		t.Error("the report says nothing of its being incomplete")
	}
	var out bytes.Buffer
	if err := writeTable(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "schedule-partial.txt", out.Bytes())
	r.Runs = r.Runs[:1]
	if o.conclude(r); r.Comparisons[0].Ratio != nil || r.Goals[0].Verdict != bench.Open {
		t.Errorf("one run: %+v, %+v", r.Comparisons[0], r.Goals[0])
	}
	if full := scheduleReport(); full.Incomplete {
		t.Error("a full report is incomplete")
	}
}

// TestScheduleInterrupted checks that a benchmark without any finished run returns no report.
func TestScheduleInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	o := measurement{
		Programs: bench.SchedulePrograms{Etcd: "/no/etcd", APIServer: "/no/apiserver", Scheduler: "/no/scheduler"},
		Nodes:    []int{1}, Percentages: []int{0}, Pods: 10,
		Options: bench.Options{Repetitions: 2, Out: t.TempDir(), Progress: func(string) {}},
	}
	r, err := o.run(ctx)
	if r != nil || !errors.Is(err, context.Canceled) {
		t.Errorf("got %+v, %v", r, err)
	}
}

func TestScheduleOrder(t *testing.T) {
	places, follows := map[string]int{}, map[string]int{}
	for repetition := range 6 {
		order := scheduleOrder(repetition)
		for i, arm := range order {
			places[fmt.Sprint(i, arm)]++
			if i > 0 {
				follows[order[i-1]+", "+arm]++
			}
		}
	}
	for what, counts := range map[string]map[string]int{"place": places, "successor": follows} {
		for which, n := range counts {
			if n != 2 {
				t.Errorf("%s %s: %d times, want 2", what, which, n)
			}
		}
	}
	if len(places) != 9 || len(follows) != 6 {
		t.Errorf("places %v, successors %v", places, follows)
	}
}

func TestScheduleConfig(t *testing.T) {
	off, err := scheduleArm{name: armOff}.config("/k")
	if err != nil {
		t.Fatal(err)
	}
	on, err := scheduleArm{name: armPinned, percentage: 100}.config("/k")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "scheduler-off.yaml", off)
	golden(t, "scheduler-on.yaml", on)
}
