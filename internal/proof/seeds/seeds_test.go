package seeds

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/test/plain"
)

// machine is a host with two CPUs.
func machine(t *testing.T) *hostfs.Root {
	t.Helper()
	h := plain.New(t)
	for _, cpu := range []string{"0", "1"} {
		h.Write("sys/devices/system/cpu/cpu"+cpu+"/topology/core_id", cpu+"\n")
		h.Write("sys/devices/system/cpu/cpu"+cpu+"/topology/physical_package_id", "0\n")
	}
	for _, name := range []string{"online", "present", "possible"} {
		h.Write("sys/devices/system/cpu/"+name, "0-1\n")
	}
	return h.Root()
}

// invented returns the values of an arm that is so many times the printed one.
func invented(a Arm, times float64) Values {
	v := Values{Of: map[string]float64{}, Raw: a.Name + "\n"}
	for _, e := range Experiments() {
		for _, f := range e.Figures {
			if e.Name == a.Experiment {
				v.Of[f.Name] = f.Before * times * (1 + 0.01*float64(a.Repetition))
			}
			if f.Name == Traffic {
				v.Lacks = map[string]string{Traffic: "this machine lacks a second NUMA node"}
			}
		}
	}
	for i := range 1200 {
		v.Samples = append(v.Samples, load.Sample{
			Intended: time.Duration(i) * 10 * time.Millisecond, Status: 200,
			Latency: time.Duration(float64(100+i%20) * times * float64(time.Millisecond)),
		})
	}
	return v
}

// place is an experiment in another place than this host.
type place struct{ run func(Arm) (Values, error) }

func (place) Load() string                                   { return "a load of the test" }
func (p place) Run(_ context.Context, a Arm) (Values, error) { return p.run(a) }
func (place) Close() error                                   { return nil }

// elsewhere opens all experiments in such a place, but for two that it lacks.
func elsewhere(run func(Arm) (Values, error)) func(context.Context, string) (Opened, error) {
	return func(_ context.Context, name string) (Opened, error) {
		if name == "online" || name == "redis" {
			return nil, fmt.Errorf("%w a place for %s", bench.ErrMissing, name)
		}
		return place{run}, nil
	}
}

// TestReport measures with invented values, and compares the table, the Markdown and the chart with golden files.
func TestReport(t *testing.T) {
	var order []string
	o := Options{
		Options: bench.Options{Repetitions: 3, Out: t.TempDir(), Machine: bench.Machine{Kernel: "6.18.0", Arch: "amd64", CPUs: 2, Berth: "test"}},
		Root:    machine(t), Duration: 12 * time.Second,
		Open: elsewhere(func(a Arm) (Values, error) {
			order = append(order, fmt.Sprintf("%s %d %s", a.Experiment, a.Repetition, a.Name))
			times, differs := map[string]float64{Pinned: 0.9, StaticBurst: 0.8, Burst: 0.5, Unlimited: 0.45, Scattered: 1.5, AsPrinted: 1.1, LowLatency: 0.7}[a.Name]
			if !differs {
				times = 1
			}
			return invented(a, times), nil
		}),
	}
	r, err := Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	if want := []string{"nginx 0 any CPUs", "nginx 0 pinned", "nginx 0 other CPUs in turns", "nginx 0 any CPUs again", "nginx 1 pinned"}; !cmp.Equal(order[:5], want) {
		t.Errorf("order %q, want %q", order[:5], want)
	}
	var table strings.Builder
	if err := WriteTable(&table, r); err != nil {
		t.Fatal(err)
	}
	golden(t, "table.txt", table.String())
	for _, name := range []string{"seeds.md", "seeds.svg"} {
		text, err := os.ReadFile(filepath.Join(o.Out, name))
		if err != nil {
			t.Fatal(err)
		}
		golden(t, name, string(text))
	}
	for _, name := range []string{"summary.json", "apache-run03-burst.csv", "nginx-run01-any-CPUs-again.txt"} {
		if _, err := os.Stat(filepath.Join(o.Out, name)); err != nil {
			t.Error(err)
		}
	}
}

var update = flag.Bool("update", false, "write golden files")

// golden compares a text with a file of testdata. -update writes the file.
func golden(t *testing.T, name, text string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), text); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// plan is a plan of berth tune with a setting that the host takes, and another.
const plan = `{"settings": [
	{"knob": "sysctl.kernel.sched_autogroup_enabled", "now": "1", "want": "0", "support": "settable"},
	{"knob": "sysctl.kernel.sched_latency_ns", "want": "4000000", "support": "absent", "why": "no sysctl since Linux 5.13"}]}`

// TestPlanned: the arm as printed has what the host takes, and the notes name what it refuses.
func TestPlanned(t *testing.T) {
	p, err := readPlan(plan)
	if err != nil {
		t.Fatal(err)
	}
	file, err := manifest.ParseProfile("as-printed", []byte(p.profile()))
	if err != nil || len(file.Profile.Spec.Settings) != 1 {
		t.Errorf("error %v, profile %s", err, p.profile())
	}
	want := []string{
		"arm as printed has 1 of the document's 2 settings: sysctl.kernel.sched_autogroup_enabled: 0",
		"refused here: sysctl.kernel.sched_latency_ns: 4000000: no sysctl since Linux 5.13",
	}
	m := newMeasured(Experiment{Name: "profiles", Figures: []Figure{{Name: Traffic, Before: 2, After: 1}}, Remark: "the remark"})
	m.Notes = p.notes()
	m.Results[0].Why = "one node"
	if diff := cmp.Diff(append(want, "traffic between nodes is not measurable here: one node", "the remark"), m.notes()); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
	r := &Report{Experiments: []Measured{m}}
	var table, markdown strings.Builder
	if err := errors.Join(WriteTable(&table, r), WriteMarkdown(&markdown, r)); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{table.String(), markdown.String()} {
		if !strings.Contains(text, want[1][1:]) {
			t.Errorf("no setting is refused:\n%s", text)
		}
	}
	_, err = readPlan(strings.ReplaceAll(plan, "settable", "readOnly"))
	if !errors.Is(err, bench.ErrMissing) || !strings.Contains(err.Error(), "no sysctl since Linux 5.13") {
		t.Errorf("error %v of a host that takes no setting", err)
	}
	if _, err := readPlan("berth: no"); err == nil {
		t.Error("a plan that is none")
	}
}

// TestProfilesLeaveOthers: where a profile is on record, no file is made and no command runs.
func TestProfilesLeaveOthers(t *testing.T) {
	t.Setenv("TMPDIR", filepath.Join(t.TempDir(), "missing"))
	r, err := Run(t.Context(), Options{
		Options: bench.Options{Repetitions: 2}, Root: machine(t), Duration: time.Second, Names: []string{"profiles"},
		Profile: "the profile balanced is applied",
	})
	if !errors.Is(err, ErrNothing) || !errors.Is(err, bench.ErrMissing) || !strings.Contains(r.Experiments[0].Why, "the profile balanced is applied") {
		t.Errorf("error %v, report %+v", err, r)
	}
}

// TestLeftover: nothing is measured on a host that an experiment left changed, whatever else it lacked.
func TestLeftover(t *testing.T) {
	o := Options{
		Options: bench.Options{Repetitions: 1}, Root: machine(t), Duration: time.Second, Names: []string{"profiles", "cal-pi", "apache"},
		Open: elsewhere(func(a Arm) (Values, error) {
			if a.Experiment == "apache" {
				return Values{}, errors.Join(bench.ErrMissing, bench.ErrNotUndone)
			}
			return invented(a, 1), nil
		}),
	}
	r, err := Run(t.Context(), o)
	if !errors.Is(err, bench.ErrNotUndone) || len(r.Experiments) != 2 || !strings.HasPrefix(r.Experiments[1].Why, "it failed: ") {
		t.Errorf("error %v, report %+v", err, r)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	o.Names = []string{"apache"}
	if _, err := Run(ctx, o); !errors.Is(err, context.Canceled) || !errors.Is(err, bench.ErrNotUndone) {
		t.Errorf("error %v after an interrupt", err)
	}
}

// TestLook has the counters of two moments ten seconds apart, on machines with and without files.
func TestLook(t *testing.T) {
	nodes := make([]topology.Node, 2)
	read := func(nodes []topology.Node, files map[string]string) look {
		h := plain.New(t)
		for name, text := range files {
			h.Write(name, text)
		}
		return host{Options{Root: h.Root()}, &topology.Topology{Nodes: nodes}}.look()
	}
	first := read(nodes, map[string]string{"proc/stat": "cpu0 100 0 0 100 0 0 0 0\nctxt 1000\n", "proc/vmstat": "numa_other 10\n"})
	then := read(nodes, map[string]string{"proc/stat": "cpu0 500 0 0 600 0 0 0 100\nctxt 31000\n", "proc/vmstat": "numa_other 1010\n"})
	then.at = first.at + 10*time.Second
	traffic := 1000 * float64(os.Getpagesize()) / 1e6 / 10
	if diff := cmp.Diff(map[string]float64{CPUUse: 40, Switches: 3000, Traffic: traffic}, then.since(first).Of); diff != "" {
		t.Errorf("figures (-want +got):\n%s", diff)
	}
	for name, c := range map[string]struct {
		look  look
		lacks []string
	}{
		"one node": {read(nil, map[string]string{"proc/stat": "cpu0 1 0 0 1 0 0 0 0\nctxt 1\n", "proc/vmstat": ""}), []string{Traffic}},
		"no files": {read(nodes, nil), []string{CPUUse, Switches, Traffic}},
	} {
		v := then.since(c.look)
		if got := slices.Sorted(maps.Keys(v.Lacks)); !slices.Equal(got, slices.Sorted(slices.Values(c.lacks))) || len(v.Of) != 3-len(got) {
			t.Errorf("%s: %+v lacks %q, want %q", name, v.Of, got, c.lacks)
		}
	}
}

// TestFailures: a failed experiment spoils no other, a machine that can have none says why, an interrupt ends the run.
func TestFailures(t *testing.T) {
	broken := errors.New("broken")
	ctx, stop := context.WithCancel(t.Context())
	run := func(ctx context.Context, failure error, names ...string) (*Report, error) {
		return Run(ctx, Options{
			Options: bench.Options{Repetitions: 2}, Root: machine(t), Duration: time.Second, Names: names,
			Open: elsewhere(func(a Arm) (Values, error) {
				if a.Experiment == "nginx" {
					return Values{}, failure
				}
				return invented(a, 1), nil
			}),
		})
	}
	r, err := run(ctx, broken, "nginx", "cal-pi")
	if !errors.Is(err, broken) || errors.Is(err, ErrNothing) || !strings.Contains(r.Experiments[0].Why, "it failed: ") || r.Experiments[1].Why != "" {
		t.Errorf("error %v, report %+v", err, r)
	}
	r, err = run(ctx, fmt.Errorf("%w a third CPU", bench.ErrMissing), "nginx", "redis", "online")
	if !errors.Is(err, ErrNothing) || !errors.Is(err, bench.ErrMissing) || len(r.Experiments) != 3 {
		t.Errorf("error %v, report %+v", err, r)
	}
	for _, m := range r.Experiments {
		if m.Why == "" {
			t.Errorf("%s was measured", m.Name)
		}
	}
	stop()
	if _, err := run(ctx, ctx.Err(), "nginx"); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v after an interrupt", err)
	}
}

// TestVerdict has the changes of documents and the intervals here.
func TestVerdict(t *testing.T) {
	less, more, same := &load.Ratio{Estimate: 0.8, Low: 0.7, High: 0.9}, &load.Ratio{Estimate: 1.2, Low: 1.1, High: 1.3}, &load.Ratio{Estimate: 1, Low: 0.9, High: 1.1}
	for _, c := range []struct {
		after          float64
		treated, noise *load.Ratio
		want           Verdict
	}{
		{50, less, same, Same},
		{50, more, same, Opposite},
		{50, same, same, Neither},
		{150, more, same, Same},
		{150, less, same, Opposite},
		{150, same, nil, Neither},
		{100, same, same, Unchanged},
		{100.4, same, same, Unchanged},
		{100, less, same, Opposite},
		{100, more, same, Opposite},
		{50, less, more, Noisy},
		{50, less, less, Noisy},
		{50, nil, same, Open},
	} {
		if got := verdict(Figure{Before: 100, After: c.after}, c.treated, c.noise); got != c.want {
			t.Errorf("%g, %+v, %+v: %s, want %s", c.after, c.treated, c.noise, got, c.want)
		}
	}
}

// TestParseWrk reads the output of Debian's wrk 4.1.0, and refuses another.
func TestParseWrk(t *testing.T) {
	const said = `Running 1s test @ http://127.0.0.1:18080/
  1 threads and 100 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency     4.20ms   14.52ms  93.54ms   93.76%
    Req/Sec   122.54k    27.56k  137.93k    81.82%
  Latency Distribution
     50%  576.00us
     75%  615.00us
     90%  807.00us
     99%   81.66ms
  133770 requests in 1.10s, 18.88MB read
Requests/sec: 121425.19
Transfer/sec:     17.14MB
`
	v, err := ParseWrk(said)
	want := map[string]float64{"requests": 121425.19, "mean": 4200, "p50": 576, "p75": 615, "p90": 807, "p99": 81660}
	if diff := cmp.Diff(want, v.Of); err != nil || diff != "" {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	for _, other := range []string{"", "unable to connect to 127.0.0.1:1 Connection refused\n", strings.Replace(said, "99%", "98%", 1)} {
		if _, err := ParseWrk(other); !errors.Is(err, bench.ErrChild) {
			t.Errorf("%q: error %v", other, err)
		}
	}
}

// TestPrinted: every experiment has a reference, a treated arm and printed figures.
func TestPrinted(t *testing.T) {
	for _, e := range Experiments() {
		if len(e.Figures) == 0 || e.Load == "" || e.Document == "" {
			t.Errorf("%+v is incomplete", e)
		}
		if n := len(e.Arms); n > 0 && (e.Arms[n-1] != e.Arms[0]+Again || e.Treated == "") {
			t.Errorf("%s: arms %q", e.Name, e.Arms)
		}
		for _, f := range e.Figures {
			if f.Before <= 0 || f.After <= 0 || f.Unit == "" {
				t.Errorf("%s: %+v", e.Name, f)
			}
		}
	}
}
