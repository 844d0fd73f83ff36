package bench

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/load"
)

// scheduleReport is a report whose figures are known.
func scheduleReport() *ScheduleReport {
	r := &ScheduleReport{
		Machine: Machine{Kernel: "6.12.0", CPUs: 2, Berth: "dev", Arch: "amd64"},
		Setup:   ScheduleSetup{Pods: 2000, PodCPUs: 4, Repetitions: 6, QPS: 5000},
		Notes:   []string{"a note"},
	}
	for _, percentage := range []int{0, 100} {
		for repetition := range 6 {
			for i, arm := range ScheduleArms() {
				slower := 1 + 0.06*float64(i)
				r.Runs = append(r.Runs, ScheduleRun{
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
	if err := WriteScheduleTable(&out, scheduleReport()); err != nil {
		t.Fatal(err)
	}
	golden(t, "schedule.txt", out.Bytes())
}

func TestScheduleGoals(t *testing.T) {
	verdicts := func(r *ScheduleReport) (list []Verdict) {
		for _, g := range judgeSchedule(r) {
			list = append(list, g.Verdict)
		}
		return list
	}
	r := scheduleReport()
	// Each percentage: ordinary pods by time and by CPU (0.943), pinned (0.893).
	want := []Verdict{Missed, Missed, Missed, Missed, Missed, Missed, Missed, Missed}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("6 %% slower (-want +got):\n%s", diff)
	}
	for i := range r.Comparisons {
		r.Comparisons[i].Ratio = &load.Ratio{Estimate: 0.97, Low: 0.92, High: 1.01}
	}
	want = []Verdict{Missed, Missed, Met, Met, Missed, Missed, Met, Met}
	if diff := cmp.Diff(want, verdicts(r)); diff != "" {
		t.Errorf("judged by the lower end (-want +got):\n%s", diff)
	}
	r.Setup.Repetitions = 2
	if diff := cmp.Diff([]Verdict{Open}, verdicts(r)[:1]); diff != "" {
		t.Errorf("two repetitions (-want +got):\n%s", diff)
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
	off, err := scheduleArm{name: ScheduleOff}.config("/k")
	if err != nil {
		t.Fatal(err)
	}
	on, err := scheduleArm{name: SchedulePinned, percentage: 100}.config("/k")
	if err != nil {
		t.Fatal(err)
	}
	golden(t, "scheduler-off.yaml", off)
	golden(t, "scheduler-on.yaml", on)
}

func TestFindPrograms(t *testing.T) {
	a, b := t.TempDir(), t.TempDir()
	for _, file := range []string{a + "/etcd", a + "/kube-apiserver", b + "/etcd", b + "/berth-scheduler"} {
		if err := os.WriteFile(file, nil, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	p, err := FindPrograms(a, b)
	if err != nil || p.Etcd != a+"/etcd" || p.Scheduler != b+"/berth-scheduler" {
		t.Errorf("got %+v, %v", p, err)
	}
	if _, err := FindPrograms(a); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "berth-scheduler") {
		t.Errorf("got %v, want the missing one", err)
	}
}
