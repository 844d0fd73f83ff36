package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// golden compares got with testdata/name. go test -update rewrites the file.
func golden(t *testing.T, name string, got []byte) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if update := flag.Lookup("update"); update != nil && update.Value.String() == "true" {
		if err := os.WriteFile(file, got, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

// samples returns n samples over d. Every fiftieth sample is slow.
func samples(n int, d, fast, slow time.Duration) []load.Sample {
	list := make([]load.Sample, n)
	for i := range list {
		list[i] = load.Sample{Intended: d * time.Duration(i) / time.Duration(n), Latency: fast, Status: 204}
		if i%50 == 0 {
			list[i].Latency = slow
		}
	}
	return list
}

// synthetic returns a report of three repetitions with known figures.
func synthetic(n int, d time.Duration) *Report {
	const ms = time.Millisecond
	repetition := Repetition{}
	for name, slow := range map[string]time.Duration{
		Unlimited: 40 * ms, Unlimited2: 41 * ms, QuotaOnly: 200 * ms, KernelBurst: 90 * ms, Koordinator: 80 * ms, Berth: 40 * ms,
	} {
		repetition[name] = Outcome{
			Samples: samples(n, d, 10*ms, slow), Periods: 400, CPU: d / 4, Elapsed: d,
		}
	}
	quota := repetition[QuotaOnly]
	quota.Throttled, quota.Above = 180, 2
	repetition[QuotaOnly] = quota
	berth := repetition[Berth]
	berth.Writes, berth.WritesUnderLoad = 3, 1
	repetition[Berth] = berth
	repetitions := []Repetition{repetition, repetition, repetition}
	r := &Report{
		Machine:     Machine{Kernel: "6.12.0", CPUs: 2, Cgroups: "v2", Berth: "dev", Arch: "amd64"},
		Setup:       Setup{LimitCPUs: 0.5, BatchesPerSec: 10, Batch: 17, WorkMicros: 1200, ArmSeconds: d.Seconds(), Seed: 1},
		Repetitions: 3,
		Ratios:      Compare(repetitions, ArmNames()),
		Abusers: []Abuse{{
			Mode: "always", LimitCPUs: 0.5, SpentSeconds: 9.5, Seconds: 60, MeanCPUs: 0.502, OverLimit: 1.004, ExcessSeconds: 10.12, CreditSeconds: 10, Looks: 70_000, UnseenSeconds: 0.004, Writes: 2, Strikes: 1,
			Threshold: 100, Alone: &AbuseAlone{Seconds: 60, MeanCPUs: 0.505, OverLimit: 1.01, ExcessSeconds: 0.12, Looks: 60_000},
			Bound: &AbuseBound{LatenessSeconds: 0.002, KernelModeSeconds: 0.1, Seconds: 10.21, WithoutKernelMode: 10.01},
		}},
		Notes: []string{"a note"},
	}
	for _, name := range ArmNames() {
		r.Arms = append(r.Arms, Summarize(name, repetitions))
	}
	r.Goals = judge(r)
	return r
}

func TestTable(t *testing.T) {
	var full, short bytes.Buffer
	if err := WriteTable(&full, synthetic(10_000, time.Minute)); err != nil {
		t.Fatal(err)
	}
	golden(t, "full.txt", full.Bytes())
	if err := WriteTable(&short, synthetic(900, 6*time.Second)); err != nil {
		t.Fatal(err)
	}
	golden(t, "short.txt", short.Bytes())
}

func TestGoals(t *testing.T) {
	verdicts := func(r *Report) []Verdict {
		var list []Verdict
		for _, g := range judge(r) {
			if !strings.Contains(g.Goal, "any window") { // TestBoundGoal
				list = append(list, g.Verdict)
			}
		}
		return list
	}
	for name, c := range map[string]struct {
		change func(*Report)
		want   []Verdict
	}{
		// Order: p99, p99.9, quota only, peer, throttled, abuser, writes.
		"all in reach": {func(*Report) {}, []Verdict{Met, Open, Met, Met, Met, Met, Met}},
		"a wide interval misses": {
			func(r *Report) {
				for i := range r.Ratios {
					if r.Ratios[i].Arm != Unlimited2 {
						r.Ratios[i].Median = &load.Ratio{Estimate: 0.8, Low: 0.7, High: 1.2}
					}
				}
			},
			[]Verdict{Missed, Open, Missed, Missed, Met, Met, Met},
		},
		"a wide interval on a noisy machine is open": {
			func(r *Report) {
				for i := range r.Ratios {
					r.Ratios[i].Median = &load.Ratio{Estimate: 0.8, Low: 0.7, High: 1.2}
				}
			},
			[]Verdict{Open, Open, Missed, Open, Met, Met, Met},
		},
		"no interval holds the goal, noise or not": {
			func(r *Report) {
				for i := range r.Ratios {
					r.Ratios[i].Median = &load.Ratio{Estimate: 3, Low: 2, High: 4}
				}
			},
			[]Verdict{Missed, Open, Met, Missed, Met, Met, Met},
		},
		"enough requests for p99.9": {
			func(r *Report) {
				for i := range r.Arms {
					r.Arms[i].Requests = 100_000
				}
				for i := range r.Ratios {
					r.Ratios[i].Median = r.Ratios[i].Ratio // twenty stretches
				}
			},
			[]Verdict{Met, Met, Met, Met, Met, Met, Met},
		},
		"hardly any throttling proves nothing": {
			func(r *Report) { r.Arms[1].Throttled = 10 },
			[]Verdict{Met, Open, Met, Met, Open, Met, Met},
		},
		"throttled, and an ancestor counts": {
			func(r *Report) { r.Arms[4].Above = 10 },
			[]Verdict{Met, Open, Met, Met, Missed, Met, Met},
		},
		"an abuser over its limit, too many writes": {
			func(r *Report) { r.Abusers[0].OverLimit = 1.02; r.Arms[4].WritesUnderLoad = 60 },
			[]Verdict{Met, Open, Met, Met, Met, Missed, Missed},
		},
		"the same writes to nine groups": {
			func(r *Report) { r.Setup.Neighbours = 8; r.Arms[4].WritesUnderLoad = 54 },
			[]Verdict{Met, Open, Met, Met, Met, Met, Met},
		},
		"two repetitions": {
			func(r *Report) { r.Repetitions = 2 },
			[]Verdict{Open, Open, Met, Open, Met, Met, Met},
		},
		"one long repetition": {
			func(r *Report) {
				r.Repetitions = 1
				for i := range r.Ratios {
					r.Ratios[i].Stretches = 30
				}
			},
			[]Verdict{Met, Open, Met, Met, Met, Met, Met},
		},
		"one repetition that is not long": {
			func(r *Report) {
				r.Repetitions = 1
				for i := range r.Ratios {
					r.Ratios[i].Stretches = 29
				}
			},
			[]Verdict{Open, Open, Met, Open, Met, Met, Met},
		},
		"two long repetitions": {
			func(r *Report) {
				r.Repetitions = 2
				for i := range r.Ratios {
					r.Ratios[i].Stretches = 60
				}
			},
			[]Verdict{Open, Open, Met, Open, Met, Met, Met},
		},
		"p99.9 has its own noise": {
			func(r *Report) {
				for i := range r.Arms {
					r.Arms[i].Requests = 100_000
				}
				for i, line := range r.Ratios {
					noise := &load.Ratio{Estimate: 1, Low: 0.8, High: 1.2}
					switch {
					case line.Quantile == "p99.9" || line.Arm == Berth && line.Reference == Unlimited:
						r.Ratios[i].Median = noise
					case line.Arm == Unlimited2:
						r.Ratios[i].Median = &load.Ratio{Estimate: 1, Low: 0.99, High: 1.01}
					}
				}
			},
			[]Verdict{Missed, Open, Met, Met, Met, Met, Met},
		},
		"p99.9 is quiet where p99 is not": {
			func(r *Report) {
				for i := range r.Arms {
					r.Arms[i].Requests = 100_000
				}
				for i, line := range r.Ratios {
					switch {
					case line.Arm == Unlimited2 && line.Quantile == "p99.9": // more than p99 may differ
						r.Ratios[i].Median = &load.Ratio{Estimate: 1, Low: 0.9, High: 1.1}
					case line.Arm == Unlimited2 || line.Arm == Berth && line.Reference == Unlimited:
						r.Ratios[i].Median = &load.Ratio{Estimate: 1, Low: 0.8, High: 1.2}
					}
				}
			},
			[]Verdict{Open, Missed, Met, Met, Met, Met, Met},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := synthetic(10_000, time.Minute)
			c.change(r)
			if diff := cmp.Diff(c.want, verdicts(r)); diff != "" {
				t.Errorf("verdicts (-want +got):\n%s", diff)
			}
		})
	}
}

func TestNoise(t *testing.T) {
	quiet := Repetition{
		Unlimited:  {Samples: samples(2000, time.Second, 10, 100)},
		Unlimited2: {Samples: samples(2000, time.Second, 10, 109)},
	}
	if ratio, known := noise(quiet); !known || ratio != 1.09 {
		t.Errorf("noise = %v, %v, want 1.09", ratio, known)
	}
	if _, known := noise(Repetition{}); known {
		t.Error("noise of nothing is known")
	}
}

// TestFewerArms: only measured arms are compared and judged.
func TestFewerArms(t *testing.T) {
	arms := []string{Unlimited, QuotaOnly, Berth, Unlimited2}
	r := synthetic(10_000, time.Minute)
	r.Arms = slices.DeleteFunc(r.Arms, func(a ArmSummary) bool { return !slices.Contains(arms, a.Name) })
	repetition := Repetition{}
	for _, name := range arms {
		repetition[name] = Outcome{Samples: samples(10_000, time.Minute, time.Millisecond, 2*time.Millisecond)}
	}
	r.Ratios = Compare([]Repetition{repetition}, arms)
	for _, line := range r.Ratios {
		if !slices.Contains(arms[1:], line.Arm) || line.Reference != Unlimited || line.Ratio == nil {
			t.Errorf("%+v", line)
		}
	}
	if len(r.Ratios) != 9 {
		t.Errorf("%d ratios, want three quantiles of three arms", len(r.Ratios))
	}
	if got := (BurstOptions{Arms: arms, Peer: PeerOptions{Command: []string{"agent"}}}).arms(); !slices.Equal(got, slices.Insert(slices.Clone(arms), 3, Peer)) {
		t.Errorf("with a peer: %q", got)
	}
	repetition[Peer] = repetition[Berth]
	if lines := Compare([]Repetition{repetition}, slices.Insert(slices.Clone(arms), 3, Peer)); len(lines) != 15 || find(lines, Berth, Peer, "p99", "all").Ratio == nil {
		t.Errorf("%d ratios with a peer, want three quantiles of five comparisons", len(lines))
	}
	for _, g := range judge(r) {
		if strings.Contains(g.Goal, "Koordinator") {
			t.Errorf("judged without its arm: %+v", g)
		}
	}
}

// TestOneBadRepetition: the machine disturbs the arm with Berth in one of seven repetitions. That repetition counts,
// but the verdict is that of the other six.
func TestOneBadRepetition(t *testing.T) {
	const ms = time.Millisecond
	var repetitions []Repetition
	for i := range 7 {
		r := Repetition{}
		for _, name := range []string{Unlimited, Berth, Unlimited2} {
			slow := 40 * ms
			if name == Berth && i == 3 {
				slow *= 5
			}
			r[name] = Outcome{Samples: samples(10_000, time.Minute, 10*ms, slow)}
		}
		repetitions = append(repetitions, r)
	}
	arms := []string{Unlimited, Berth, Unlimited2}
	r := &Report{Repetitions: 7, Ratios: Compare(repetitions, arms)}
	for _, name := range arms {
		r.Arms = append(r.Arms, Summarize(name, repetitions))
	}
	if g := judge(r)[0]; g.Verdict != Met {
		t.Errorf("%+v", g)
	}
	if line := r.noiseLine(); !strings.Contains(line, "1.000 (95 % 1.000..1.000)") {
		t.Error(line)
	}
}

// TestGoRuntime: the summary has the maximum of threads and GOMAXPROCS, and all changes over the time of all loads.
func TestGoRuntime(t *testing.T) {
	for _, name := range []string{GoDefault, GoDefaultAlone} {
		repetition := func(p load.Procs) Repetition {
			return Repetition{name: Outcome{Elapsed: time.Minute, Procs: p}}
		}
		repetitions := []Repetition{repetition(load.Procs{Max: 6, Changes: 1, Threads: 9}), repetition(load.Procs{Max: 2, Changes: 3, Threads: 12})}
		if diff := cmp.Diff(&GoRuntime{MaxProcs: 6, Threads: 12, ChangesPerHour: 120}, Summarize(name, repetitions).GoRuntime); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		if g := Summarize(Berth, repetitions).GoRuntime; g != nil {
			t.Errorf("an arm without: %+v", g)
		}
		if got := (BurstOptions{}).arms(); slices.Contains(got, name) {
			t.Errorf("it runs without being asked for: %q", got)
		}
		if got := (BurstOptions{Arms: []string{Unlimited, name}}).arms(); !slices.Equal(got, []string{Unlimited, name}) {
			t.Errorf("%q", got)
		}
	}
}

// TestGoDefaultAlone: the server that follows a moving quota is compared with Berth, and with the same server whose quota
// does not move. A line needs both of its arms.
func TestGoDefaultAlone(t *testing.T) {
	const ms = time.Millisecond
	o := savedOptions()
	o.Limit, o.Duration, o.Arms = 0.5, 20*time.Second, []string{GoDefaultAlone, Unlimited, GoDefault, Berth}
	o.Run = func(_ context.Context, a Arm) (Outcome, error) {
		outcome := Outcome{Samples: samples(len(a.Arrivals), o.Duration, ms, 10*ms), Elapsed: time.Minute}
		switch a.Name {
		case GoDefault:
			outcome.Samples = samples(len(a.Arrivals), o.Duration, ms, 12*ms)
			outcome.Procs = load.Procs{Max: 6, Changes: 2, Threads: 9}
		case GoDefaultAlone:
			outcome.Samples = samples(len(a.Arrivals), o.Duration, ms, 48*ms)
			outcome.Procs = load.Procs{Max: 2, Threads: 4}
		}
		return outcome, nil
	}
	r, err := RunBurst(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	var order []string
	for _, a := range r.Arms {
		order = append(order, a.Name)
	}
	if want := []string{Unlimited, Berth, GoDefault, GoDefaultAlone}; !slices.Equal(order, want) {
		t.Errorf("arms %q, want %q", order, want)
	}
	if len(r.Ratios) != 15 {
		t.Errorf("%d ratios, want three quantiles of five comparisons", len(r.Ratios))
	}
	for reference, want := range map[string]float64{Berth: 1.2, GoDefaultAlone: 0.25} {
		if line := find(r.Ratios, GoDefault, reference, "p99", "all"); line.Median == nil || line.Median.Estimate != want {
			t.Errorf("to %s: %+v, want %v", reference, line, want)
		}
	}
	for _, want := range []string{
		"go default: p99 12.0 ms; GOMAXPROCS 6 at the end, 120.0 changes an hour; 9 threads",
		"go default limit only: p99 48.0 ms; GOMAXPROCS 2 at the end, 0.0 changes an hour; 4 threads",
	} {
		if !slices.Contains(r.Notes, want) {
			t.Errorf("want %q in %q", want, r.Notes)
		}
	}
	o.Arms = []string{Unlimited, GoDefaultAlone, Berth}
	if r, err = RunBurst(t.Context(), o); err != nil || len(r.Ratios) != 6 {
		t.Errorf("%v, ratios %+v", err, r)
	}
}

// TestArmsInJSON checks the fields of an arm in the three reports, and their order: the JSON is a contract.
func TestArmsInJSON(t *testing.T) {
	served := Served{Requests: 100, Failed: 1, P50: new(2.5)}
	const quantiles = `"requests":100,"failed":1,"p50Millis":2.5,"p95Millis":null,"p99Millis":null,"p999Millis":null`
	for want, arm := range map[string]any{
		`{"name":"a",` + quantiles + `,"throttledPeriods":0,"ancestorThrottledPeriods":0,"periods":0,"meanCPUs":0,"writes":0,"writesUnderLoad":0}`: ArmSummary{Name: "a", Served: served},
		`{"name":"a",` + quantiles + `,"throttledPeriods":0,"ancestorThrottledPeriods":0,"periods":0,"meanCPUs":0,"writes":0,"writesUnderLoad":0,` +
			`"neighbours":[{` + quantiles + `,"throttledPeriods":7,"periods":9,"meanCPUs":0.5}]}`: ArmSummary{Name: "a", Served: served, Neighbours: []NeighbourSummary{{Served: served, Throttled: 7, Periods: 9, MeanCPUs: 0.5}}},
		`{"name":"a","server":"0","neighbour":"",` + quantiles + `,"serverCPUs":0.5,"neighbourCPUs":null}`: PinArm{Name: "a", Server: cpuset.Set{}.Add(0), Served: served, ServerCPUs: 0.5},
		`{"name":"a",` + quantiles + `,"hogCPUs":null,"idleShare":null,"stealCPUs":0,"together":null,"waitingThreads":null,` +
			`"behindOffline":null,"behindOnline":null,"behindOthers":null,"behindNobody":null,"waits":0,"unseenWaits":0,"lostEvents":0}`: InterferenceArm{Name: "a", Served: served},
	} {
		got, err := json.Marshal(arm)
		if err != nil || string(got) != want {
			t.Errorf("%T: %v\n%s\nwant\n%s", arm, err, got, want)
		}
	}
}
