package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
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
		Setup:   Setup{Pods: 10_000, PodCPUs: 4, Repetitions: 5, QPS: 5000, LeaseSeconds: 60},
		Notes:   []string{"a note"},
	}
	for _, s := range []scenario{{1000, 0}, {1000, 100}, {10_000, 0}} {
		for repetition := range 5 {
			for i, arm := range bench.ScheduleArms() {
				slower := 1 + 0.02*float64(i)
				if arm == armPinned {
					slower = 0.8
				}
				r.Runs = append(r.Runs, Run{
					Nodes: s.nodes, Percentage: s.percentage, Repetition: repetition, Arm: arm,
					Pods: 9000, Seconds: 30 * slower, CPUSeconds: 20 * slower * (1 + 0.1*float64(repetition)), PeakMiB: 150,
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
	const met, missed = bench.Met, bench.Missed
	r := scheduleReport()
	// Each scenario: ordinary pods (2 % slower), beside a hiding pod (4 %), with labels (6 %), each by time and by CPU. Pinned
	// pods (20 % faster) count with the default percentage; with 10,000 nodes their CPU time counts instead.
	want := []bench.Verdict{
		met, met, missed, missed, missed, missed, met, met,
		met, met, missed, missed, missed, missed,
		met, met, missed, missed, missed, missed, met,
	}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("2 %% slower each (-want +got):\n%s", diff)
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Ratio = &load.Ratio{Estimate: 1.3, Low: 1.19, High: 1.4}
	}
	for i := range r.Runs { // from 4.1 ms a pod to 5.8, on average 4.9
		r.Runs[i].CPUSeconds = 37 * (1 + 0.1*float64(r.Runs[i].Repetition))
	}
	want = []bench.Verdict{
		met, met, met, met, met, met, missed, missed,
		met, met, met, met, met, met,
		met, met, met, met, met, met, missed,
	}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("judged by the ends of the intervals (-want +got):\n%s", diff)
	}
	r.Comparisons[0].Repetitions = 3
	if diff := cmp.Diff([]bench.Verdict{bench.Open}, verdicts(r)[:1]); diff != "" {
		t.Errorf("three repetitions (-want +got):\n%s", diff)
	}
	r.Setup.Pods = 9_999
	for _, verdict := range verdicts(r) {
		if verdict != bench.Open {
			t.Errorf("too few pods a run: %s", verdict)
		}
	}
}

// TestMillisPerPod checks the CPU time a pod by figures computed by hand: the runs took 2 ms and 4 ms a pod. The
// interval is Student's t with one degree of freedom, 12.7062, of the logarithm.
func TestMillisPerPod(t *testing.T) {
	got := millisPerPod([]Run{{Pods: 1000, CPUSeconds: 2}, {Pods: 1000, CPUSeconds: 4}})
	if got == nil || math.Abs(got.Estimate-3) > 1e-9 {
		t.Fatalf("got %+v, want 3 ms", got)
	}
	// The effects are 2*(2/6-1/2) and 2*(4/6-1/2), their standard error 1/3.
	if width := math.Exp(12.7062 / 3); math.Abs(got.High-3*width) > 1e-6*width || math.Abs(got.Low-3/width) > 1e-6 {
		t.Errorf("got %+v, want 3 ms divided and multiplied by %g", got, width)
	}
	if one := millisPerPod([]Run{{Pods: 1000, CPUSeconds: 2}}); one != nil {
		t.Errorf("one run has the interval %+v", one)
	}
}

// TestSchedulePartial checks that an interrupted benchmark reports its finished runs, and compares arms over the
// repetitions that have both.
func TestSchedulePartial(t *testing.T) {
	o := measurement{Nodes: []int{1000, 5000}, Percentages: []int{0}, Options: bench.Options{Repetitions: 5}}
	r := &Report{Machine: bench.Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"}, Setup: Setup{
		Pods: 1000, PodCPUs: 4, Repetitions: 5, QPS: 5000, LeaseSeconds: 60,
	}}
	for repetition := range 3 {
		for _, arm := range scheduleOrder(o.arms(), repetition) {
			r.Runs = append(r.Runs, Run{
				Nodes: 1000, Repetition: repetition, Arm: arm, Pods: 900, Seconds: 2, CPUSeconds: 1, PeakMiB: 150,
			})
		}
	}
	r.Runs = r.Runs[:len(r.Runs)-4] // the third repetition has only pods beside a hiding pod
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
	r.Runs = r.Runs[:2]
	if o.conclude(r); r.Comparisons[0].Ratio != nil || r.Goals[0].Verdict != bench.Open {
		t.Errorf("one pair: %+v, %+v", r.Comparisons[0], r.Goals[0])
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

// TestScheduleOrder: in n repetitions of n arms each arm is once at each place, and over the whole design each arm
// follows each other arm equally often.
func TestScheduleOrder(t *testing.T) {
	for n := 2; n <= len(bench.ScheduleArms()); n++ {
		arms := bench.ScheduleArms()[:n]
		for _, squares := range []int{1, 2} {
			places, follows := map[string]int{}, map[string]int{}
			for repetition := range squares * n {
				order := scheduleOrder(arms, repetition)
				for i, arm := range order {
					places[fmt.Sprint(i, arm)]++
					if i > 0 {
						follows[order[i-1]+", "+arm]++
					}
				}
			}
			if len(places) != n*n {
				t.Errorf("%d arms: places %v", n, places)
			}
			for place, times := range places {
				if times != squares {
					t.Errorf("%d arms, %d squares: place %s: %d times", n, squares, place, times)
				}
			}
			if squares == 1 && n%2 == 1 {
				continue // an odd number of arms needs the mirrored square
			}
			if len(follows) != n*(n-1) {
				t.Errorf("%d arms: successors %v", n, follows)
			}
			for which, times := range follows {
				if times != squares {
					t.Errorf("%d arms, %d squares: successors %s: %d times", n, squares, which, times)
				}
			}
		}
	}
}

// TestScheduleArms checks which pods each arm has.
func TestScheduleArms(t *testing.T) {
	for _, test := range []struct {
		arm           string
		berth, pinned bool
		labels, keys  map[string]string
	}{
		{arm: armOff},
		{arm: armOrdinary, berth: true},
		{arm: armHiding, berth: true},
		{arm: armLabelled, berth: true, labels: map[string]string{"koordinator.sh/qosClass": "LS"}},
		{arm: armPinned, berth: true, pinned: true, keys: map[string]string{"cpuset-scheduler": "true"}},
	} {
		a := scheduleArm{name: test.arm}
		pod := a.pod()
		if a.berth() != test.berth || a.pinned() != test.pinned {
			t.Errorf("%s: berth %t, pinned %t", test.arm, a.berth(), a.pinned())
		}
		if diff := cmp.Diff([]map[string]string{test.labels, test.keys}, []map[string]string{pod.Labels, pod.Annotations}); diff != "" {
			t.Errorf("%s: labels and annotations (-want +got):\n%s", test.arm, diff)
		}
	}
	hiding := scheduleArm{name: armHiding}.hidingPod()
	wants := hiding.Spec.Containers[0].Resources
	if wants.Requests.Cpu().Value() != 1 || wants.Limits.Cpu().Value() != 4 || hiding.Annotations["cpuset-scheduler"] != "true" {
		t.Errorf("the hiding pod has %+v, %v", wants, hiding.Annotations)
	}
	o := measurement{Arms: []string{armPinned, armOff}}
	if diff := cmp.Diff([]string{armOff, armPinned}, o.arms()); diff != "" {
		t.Errorf("chosen arms (-want +got):\n%s", diff)
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

// TestScheduleSideBySide: each repetition has each chosen arm once beside the arm without Berth, in turns, and a second
// arm without Berth. The sides follow the order of the start, which alternates.
func TestScheduleSideBySide(t *testing.T) {
	o := measurement{
		SideBySide: true, Pods: 100, Nodes: []int{1000}, Percentages: []int{0}, Arms: []string{armOff, armLabelled, armOrdinary},
		Options: bench.Options{Repetitions: 6},
	}
	if diff := cmp.Diff([]string{armOff, armOrdinary, armLabelled, armAgain}, o.arms()); diff != "" {
		t.Errorf("arms (-want +got):\n%s", diff)
	}
	if all := (measurement{SideBySide: true}).turnArms(); !cmp.Equal(all, []string{armOrdinary, armHiding, armLabelled, armAgain}) {
		t.Errorf("arms that have a turn without a choice: %q", all)
	}
	places, first, runs := map[string]int{}, map[string]int{}, 0
	for repetition := range o.Repetitions {
		for place, arm := range scheduleOrder(o.turnArms(), repetition) {
			turn := o.turn(arm, 7, repetition)
			runs += len(turn)
			places[fmt.Sprint(place, arm)]++
			if turn[0].name == armOff {
				first[arm]++
			}
			want := []scheduleArm{{armOff, 7, 100, sideOne}, {arm, 7, 100, sideTwo}}
			if repetition%2 == 1 {
				want = []scheduleArm{{arm, 7, 100, sideOne}, {armOff, 7, 100, sideTwo}}
			}
			if diff := cmp.Diff(want, turn, cmp.AllowUnexported(scheduleArm{})); diff != "" {
				t.Errorf("repetition %d, %s (-want +got):\n%s", repetition, arm, diff)
			}
		}
	}
	if len(places) != 9 || runs != o.runs() {
		t.Errorf("places %v, %d runs, want %d", places, runs, o.runs())
	}
	if diff := cmp.Diff(map[string]int{armOrdinary: 3, armLabelled: 3, armAgain: 3}, first); diff != "" {
		t.Errorf("without Berth starts first (-want +got):\n%s", diff)
	}
	if alone := (measurement{Pods: 100}).turn(armPinned, 0, 1); len(alone) != 1 || alone[0].side != "" {
		t.Errorf("an arm alone: %+v", alone)
	}
}

// TestScheduleSides checks that two arms at the same time share neither pods nor a profile.
func TestScheduleSides(t *testing.T) {
	for side, want := range map[string]string{"": "default-scheduler", sideOne: "default-scheduler-one", sideTwo: "default-scheduler-two"} {
		a := scheduleArm{name: armHiding, side: side}
		config, err := a.config("/k")
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Contains(config, []byte("schedulerName: "+want+"\n")) || !bytes.Contains(config, []byte("schedulerName: berth-scheduler"+side+"\n")) {
			t.Errorf("side %q: profiles of\n%s", side, config)
		}
		if a.namespace() != "bench"+side || a.pod().Spec.SchedulerName != want || a.hidingPod().Spec.SchedulerName != want {
			t.Errorf("side %q: namespace %s, pods of %s", side, a.namespace(), a.pod().Spec.SchedulerName)
		}
	}
}

// sideBySideReport is a report whose figures are known: labelled pods are 4 % slower than the pods beside them, and the
// second repetition is slower for both.
func sideBySideReport() *Report {
	o := measurement{
		SideBySide: true, Pods: 10_000, Nodes: []int{1000}, Percentages: []int{0}, Arms: []string{armOff, armOrdinary, armLabelled},
		Options: bench.Options{Repetitions: 4},
	}
	r := &Report{
		Machine: bench.Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"},
		Setup:   Setup{SideBySide: true, Pods: 10_000, PodCPUs: 4, Repetitions: 4, QPS: 5000, LeaseSeconds: 60},
	}
	for repetition := range 4 {
		for place, arm := range scheduleOrder(o.turnArms(), repetition) {
			pods := 9000
			if arm == armLabelled {
				pods = 8640
			}
			both := []Run{{Arm: arm, Beside: armOff, Pods: pods}, {Arm: armOff, Beside: arm, Pods: 9000}}
			for _, run := range both {
				run.Nodes, run.Repetition, run.Place, run.PeakMiB = 1000, repetition, place, 150
				run.Seconds, run.CPUSeconds = 30, 20
				if repetition == 1 {
					run.Seconds, run.CPUSeconds = 60, 50
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	o.conclude(r)
	return r
}

// TestScheduleSideBySideTable checks that only the arms of one turn are compared, so that a slow repetition does not
// widen the interval, and that the second arm without Berth has no goal.
func TestScheduleSideBySideTable(t *testing.T) {
	r := sideBySideReport()
	if r.Incomplete || len(r.Comparisons) != 6 || len(r.Goals) != 4 {
		t.Errorf("incomplete %t, %d ratios, %d goals", r.Incomplete, len(r.Comparisons), len(r.Goals))
	}
	for _, c := range r.Comparisons {
		want := 1.0
		if c.Arm == armLabelled {
			want = 0.96
		}
		if c.Ratio == nil || math.Abs(c.Ratio.Estimate-want) > 1e-9 || c.Ratio.High-c.Ratio.Low > 1e-9 || c.Repetitions != 4 {
			t.Errorf("%s, %s: %+v from %d pairs, want %g", c.Arm, c.Metric, c.Ratio, c.Repetitions, want)
		}
	}
	var out bytes.Buffer
	if err := writeTable(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "schedule-side-by-side.txt", out.Bytes())
}
