package bench

import (
	"bytes"
	"cmp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// slowed returns the samples of an arm of 20 s. One request of ten takes 4 ms times the factor, 1 if that is 0; the
// others take 2 ms.
func slowed(n int, factor float64) []load.Sample {
	const ms = time.Millisecond
	list := make([]load.Sample, n)
	for i := range list {
		list[i] = load.Sample{Intended: 20 * time.Second * time.Duration(i) / time.Duration(n), Latency: 2 * ms, Status: 204}
		if i%10 == 0 {
			list[i].Latency = time.Duration(cmp.Or(factor, 1) * 4 * float64(ms))
		}
	}
	return list
}

// interference returns a report with known figures: each arm's slow requests are slower than the server's alone by the
// arm's factor.
func interference(n int, factors map[string]float64) *InterferenceReport {
	r := &InterferenceReport{
		Machine:     Machine{Kernel: "6.18", CPUs: 2, Cgroups: "v2", Berth: "test", Arch: "amd64"},
		Setup:       InterferenceSetup{RequestsPerSec: 200, WorkMicros: 1500, Hogs: 2, ArmSeconds: 20, Seed: 1},
		Boundary:    InterferenceBoundary{Online: cpuset.Set{}.Add(0), Offline: cpuset.Set{}.Add(1), Reserve: cpuset.Set{}.Add(0), UseCPUs: 0.3, Need: 1, Low: 1, Target: 1},
		Repetitions: 2, CoResidency: bySwitches, Waiting: byWakeups,
	}
	one := repetitionWith[beside]{Repetition{}, map[string]beside{}}
	for _, name := range InterferenceArms(true, true) {
		one.Repetition[name] = Outcome{Samples: slowed(n, factors[name]), Elapsed: 20 * time.Second}
		one.beside[name] = beside{Hogs: 1.6, Idle: 0.05, Steal: 0.01, Together: new(0.25), Waited: new(0.4), Behind: &behind{0.03, 0.2, 0.15, 0.01, 900, 9}}
	}
	for _, name := range []string{Alone, AloneOnCores, AloneAgain} {
		one.beside[name] = beside{Idle: 1.7, Waited: new(0.2), Behind: &behind{0, 0.15, 0.04, 0.002, 900, 0}}
	}
	r.summarize([]repetitionWith[beside]{one, one}, InterferenceArms(true, true))
	r.Goals = judgeInterference(r)
	return r
}

func verdicts(goals []Goal) string {
	all := make([]string, 0, len(goals))
	for _, g := range goals {
		all = append(all, string(g.Verdict))
	}
	return strings.Join(all, " ")
}

func TestJudgeInterference(t *testing.T) {
	for _, c := range []struct {
		name    string
		n       int
		factors map[string]float64
		want    string
	}{
		{"all as it should be", 12_000, map[string]float64{DefaultShares: 1.5}, "met met met met met met"},
		{"idle is no better", 12_000, map[string]float64{DefaultShares: 1.5, IdleGroup: 1.5}, "met missed missed met met met"},
		{"cores are slow beside hogs", 12_000, map[string]float64{DefaultShares: 1.5, OwnCores: 1.2}, "met met met met missed missed"},
		{"cores are slow alone, too", 12_000, map[string]float64{DefaultShares: 1.5, OwnCores: 1.2, AloneOnCores: 1.2}, "met met met met met met"},
		{"the hogs do not show", 12_000, map[string]float64{DefaultShares: 1.1}, "missed n/a n/a met n/a n/a"},
		{"the machine is not quiet", 12_000, map[string]float64{DefaultShares: 1.5, AloneAgain: 1.2}, "n/a n/a n/a n/a n/a n/a"},
		{"a reserve is judged on 16 CPUs only", 12_000, map[string]float64{DefaultShares: 1.5, IdleReserve: 1.5}, "met met met met met met"},
		{"too few for p99", 1500, map[string]float64{DefaultShares: 1.5}, "met met n/a met met n/a"},
		{"too few for anything", 50, map[string]float64{DefaultShares: 1.5}, "n/a n/a n/a n/a n/a n/a"},
	} {
		if got := verdicts(interference(c.n, c.factors).Goals); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
}

// On 16 CPUs the arm with a reserve has its own goals.
func TestJudgeReserve(t *testing.T) {
	for factor, want := range map[float64]string{1: "met met met", 1.1: "missed met met", 1.2: "missed missed met"} {
		r := interference(12_000, map[string]float64{DefaultShares: 1.5, IdleReserve: factor})
		r.Machine.CPUs = 16
		goals := judgeInterference(r)[4:7]
		if got := verdicts(goals); got != want {
			t.Errorf("slower by %g: %s, want %s: %+v", factor, got, want, goals)
		}
	}
}

// With a single core there is no boundary. The two arms that need it are missing, and the report gives the reason.
func TestInterferenceWithoutBoundary(t *testing.T) {
	if slices.Contains(InterferenceArms(false, false), OwnCores) || slices.Contains(InterferenceArms(false, false), AloneOnCores) {
		t.Error(InterferenceArms(false, false))
	}
	r := &InterferenceReport{Boundary: InterferenceBoundary{Reason: "one core"}, CoResidency: unknown + "no records", Waiting: unknown + "no tracefs"}
	one := repetitionWith[beside]{Repetition{}, map[string]beside{}}
	r.summarize([]repetitionWith[beside]{one}, InterferenceArms(false, false))
	r.Goals = judgeInterference(r)
	r.note(InterferenceOptions{LoadOptions: LoadOptions{Options: Options{Quick: true}, Place: Place{Parent: "a.scope"}}})
	if len(r.Goals) != 4 || len(r.Notes) != 4 || !strings.Contains(r.Notes[0], "one core") || !strings.HasSuffix(r.Notes[1], "behind whom: unknown: no tracefs") {
		t.Errorf("%+v", r)
	}
}

// TestCoResidencyUnknown checks the three cases in which the table does not say behind whom threads waited: the kernel
// has no records of wakeups, it lost events in one arm, and in one arm the wakeups of some threads are missing. WAITING
// does not depend on them. No figure replaces an unknown figure.
func TestCoResidencyUnknown(t *testing.T) {
	r := &InterferenceReport{Boundary: InterferenceBoundary{Reason: "one core"}, CoResidency: bySwitches, Waiting: byWakeups, Repetitions: 2}
	whole := beside{Hogs: 1, Idle: 1, Together: new(0.25), Waited: new(0.4), Behind: &behind{0.03, 0.2, 0.15, 0.01, 900, 9}}
	missing, lost, total := whole, beside{Waited: new(0.4), Lost: 7}, beside{Waited: new(0.3)}
	missing.Behind = &behind{0.03, 0.2, 0.15, 0.01, 900, 10}
	var all []repetitionWith[beside]
	for range 2 {
		one := repetitionWith[beside]{Repetition{}, map[string]beside{}}
		for _, name := range InterferenceArms(false, false) {
			one.beside[name] = whole
		}
		one.beside[LowestWeight], one.beside[IdleGroup] = missing, lost
		all = append(all, one)
	}
	all[1].beside[LowestWeight] = missing
	r.summarize(all, InterferenceArms(false, false))
	r.note(InterferenceOptions{})
	var out bytes.Buffer
	p := NewPrinter(&out)
	r.writeCoResidency(p)
	p.Goals(nil, r.Notes...)
	all[0].beside[DefaultShares], all[0].beside[Quota80] = total, beside{}
	r = &InterferenceReport{Boundary: r.Boundary, CoResidency: unknown + "perf_event_open: permission denied", Waiting: unknown + "no tracefs", Repetitions: 1}
	r.summarize(all[:1], []string{DefaultShares, Quota80})
	r.note(InterferenceOptions{})
	p.Line("")
	r.writeCoResidency(p)
	p.Goals(nil, r.Notes...)
	if err := p.Err(); err != nil {
		t.Fatal(err)
	}
	golden(t, "coresidency.golden", out.Bytes())
}

func TestInterferenceTable(t *testing.T) {
	r := interference(12_000, map[string]float64{DefaultShares: 1.5, AloneAgain: 1.2})
	r.note(InterferenceOptions{LoadOptions: LoadOptions{Options: Options{Quick: true}}})
	var out bytes.Buffer
	if err := WriteInterferenceTable(&out, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "interference.golden", out.Bytes())
}
