package bench

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/proof/load"
)

// TestRedisCommands checks the keys, which are those that redis-benchmark requests with -r.
func TestRedisCommands(t *testing.T) {
	t.Parallel()
	var text strings.Builder
	if err := (RedisLoad{Keys: 2, Size: 3}).Commands(&text); err != nil {
		t.Fatal(err)
	}
	const want = "*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000000\r\n$3\r\nxxx\r\n*3\r\n$3\r\nSET\r\n$16\r\nkey:000000000001\r\n$3\r\nxxx\r\n"
	if text.String() != want {
		t.Errorf("%q, want %q", text.String(), want)
	}
	in, out := io.Pipe()
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if err := (RedisLoad{Keys: 1000, Size: 4096}).Commands(out); !errors.Is(err, io.ErrClosedPipe) {
		t.Errorf("to nobody: %v", err)
	}
}

// TestRedisRun parses the output of redis-benchmark of Debian 12.
func TestRedisRun(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/redis-benchmark.txt")
	if err != nil {
		t.Fatal(err)
	}
	var run RedisRun
	if err := run.Parse(string(text)); err != nil {
		t.Fatal(err)
	}
	if want := (RedisRun{QPS: 19723.87, P99: 13.047, P9999: 16.799}); run != want {
		t.Errorf("%+v, want %+v", run, want)
	}
	for _, wrong := range []string{"", "Could not connect to Redis", string(text[:len(text)/2])} {
		if err := new(RedisRun).Parse(wrong); !errors.Is(err, ErrChild) {
			t.Errorf("%.40q: %v", wrong, err)
		}
	}
}

// TestRedisRatios compares each arm with mixed, and runs with one key only with each other.
func TestRedisRatios(t *testing.T) {
	t.Parallel()
	var r RedisReport
	o := LocalityOptions{Redis: RedisLoad{Clients: []int{500}}}
	for repetition := range 2 {
		for _, name := range redisArms() {
			for _, run := range o.runsOf(name, repetition) {
				run.QPS, run.P99, run.P9999 = 100, 1, 2
				if run.Arm == MixedMoved && !run.OneKey {
					run.QPS = 110
				}
				r.Runs = append(r.Runs, run)
			}
		}
	}
	r.compare()
	if len(r.Ratios) != 5*3 { // four arms, and one key moved
		t.Errorf("%d ratios", len(r.Ratios))
	}
	for _, x := range r.Ratios {
		want := 1.0
		if x.Arm == MixedMoved && x.Window == "500 clients, all keys" && x.Quantile == "QPS" {
			want = 1.1
		}
		if x.Ratio == nil || x.Ratio.Estimate < want-1e-9 || x.Ratio.Estimate > want+1e-9 {
			t.Errorf("%+v: %+v, want %g", x, x.Ratio, want)
		}
	}
}

// TestRedisLongest: there is no ratio for a latency at or above the longest that redis-benchmark counts.
func TestRedisLongest(t *testing.T) {
	t.Parallel()
	var r RedisReport
	for repetition := range 2 {
		for _, name := range []string{Mixed, MixedMoved} {
			r.Runs = append(r.Runs, RedisRun{Arm: name, Repetition: repetition + 1, Clients: 500, QPS: 4000, P99: 2000, P9999: 3000.32})
		}
	}
	r.compare()
	for _, x := range r.Ratios {
		if counted := x.Quantile != "p99.99"; (x.Ratio != nil) != counted {
			t.Errorf("%+v: %+v", x, x.Ratio)
		}
	}
}

func TestJudgeLocality(t *testing.T) {
	t.Parallel()
	good := func() *LocalityReport {
		trial := LocalityTrial{Start: start{}.String(), EndPercent: 100, PassBytes: 96, PassSeconds: 1, BareBytes: 100, BareSeconds: 1, HugeKiBBefore: 2048, HugeKiBAfter: 2048}
		limited := LocalityLimited{LimitMiBps: 100, MiBps: 104, Seconds: 10, StallMillis: 2, StallBeforeMillis: 1, BatchMillis: 0.5, LongestBatchMillis: 1}
		return &LocalityReport{Trials: []LocalityTrial{trial, trial}, Limited: []LocalityLimited{limited}}
	}
	const local, bare, whole, huge, rate, stall, hog, victim = 0, 1, 2, 3, 4, 5, 6, 7
	tests := []struct {
		name   string
		change func(*LocalityReport)
		goal   int
		want   Verdict
	}{
		{"local", func(*LocalityReport) {}, local, Met},
		{"remote", func(r *LocalityReport) { r.Trials[1].EndPercent = 99.8 }, local, Missed},
		{"as fast", func(*LocalityReport) {}, bare, Met},
		{"looks long", func(r *LocalityReport) {
			for i := range r.Trials {
				r.Trials[i].PassSeconds, r.Trials[i].LookSeconds = 2, 1
			}
		}, bare, Met},
		{"slow", func(r *LocalityReport) { r.Trials[0].PassBytes, r.Trials[1].PassBytes = 90, 90 }, bare, Missed},
		{"spread out", func(r *LocalityReport) { r.Trials[0].PassBytes = 50 }, bare, Open},
		{"one trial", func(r *LocalityReport) { r.Trials = r.Trials[:1] }, bare, Open},
		{"as fast with the search", func(*LocalityReport) {}, whole, Met},
		{"searches long", func(r *LocalityReport) {
			for i := range r.Trials {
				r.Trials[i].PassSeconds, r.Trials[i].LookSeconds = 2, 1
			}
		}, whole, Missed},
		{"never all remote", func(r *LocalityReport) { r.Trials[0].Start, r.Trials[1].Start = "43 % local", "43 % local" }, whole, Open},
		{"all remote once", func(r *LocalityReport) { r.Trials[0].Start = "43 % local" }, whole, Open},
		{"whole", func(*LocalityReport) {}, huge, Met},
		{"split", func(r *LocalityReport) { r.Trials[0].Splits = 1 }, huge, Missed},
		{"not counted", func(r *LocalityReport) { r.Trials[0].Splits = -1 }, huge, Open},
		{"none", func(r *LocalityReport) { r.Trials = nil }, huge, Open},
		{"kept", func(*LocalityReport) {}, rate, Met},
		{"too fast", func(r *LocalityReport) { r.Limited[0].MiBps = 106 }, rate, Missed},
		{"too short", func(r *LocalityReport) { r.Limited[0].Seconds = 3 }, rate, Open},
		{"two of the longest calls", func(*LocalityReport) {}, stall, Met},
		{"three of the longest calls", func(r *LocalityReport) { r.Limited[0].StallMillis = 3 }, stall, Missed},
		{"noise", func(r *LocalityReport) { r.Limited[0].StallMillis, r.Limited[0].StallBeforeMillis = 3, 3 }, stall, Open},
		{"stays", func(*LocalityReport) {}, hog, Met},
		{"moves", func(r *LocalityReport) { r.Limited[0].HogMovedPercent = 0.1 }, hog, Missed},
		{"few requests", func(*LocalityReport) {}, victim, Open},
	}
	for _, tt := range tests {
		r := good()
		tt.change(r)
		r.summarize(nil)
		if got := r.Goals[tt.goal]; got.Verdict != tt.want {
			t.Errorf("%s: %+v, want %s", tt.name, got, tt.want)
		}
	}
}

// TestVictimOnEmulatedNodes: the victim is judged only on real nodes.
func TestVictimOnEmulatedNodes(t *testing.T) {
	t.Parallel()
	var samples []load.Sample
	for i := range 2000 {
		samples = append(samples, load.Sample{Intended: time.Duration(i) * time.Millisecond, Latency: time.Millisecond, Status: 200})
	}
	for virtual, want := range map[bool]Verdict{true: Open, false: Met} {
		r := LocalityReport{Setup: LocalitySetup{Virtual: virtual}}
		r.summarize([]Repetition{{Before: {Samples: samples}, During: {Samples: samples}, After: {Samples: samples}}})
		if got := r.Goals[len(r.Goals)-1]; got.Verdict != want {
			t.Errorf("virtual %t: %+v", virtual, got)
		}
	}
}

// TestWindows: requests are assigned to windows by the time at which they were due.
func TestWindows(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "requests.csv")
	text := "intended_ns,latency_ns,stall_ns\n5,1,9000000\n10,2,1000000\n20,3,2000000\n29,4,1000000\n30,5,3000000\n40,6,9000000\n"
	if err := os.WriteFile(name, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	var l LocalityLimited
	r, err := l.read(name, []time.Duration{10, 20, 30, 40})
	if err != nil {
		t.Fatal(err)
	}
	if len(r[Before].Samples) != 1 || len(r[During].Samples) != 2 || len(r[After].Samples) != 1 || load.Failures(r[During].Samples) != 0 {
		t.Errorf("%+v", r)
	}
	if l.StallBeforeMillis != 1 || l.StallMillis != 2 || l.StallAfterMillis != 3 {
		t.Errorf("%+v", l)
	}
	if err := os.WriteFile(name, []byte("a\nb\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := l.read(name, nil); err == nil {
		t.Error("a file that is malformed can be read")
	}
	if got := leftText(map[locality.Left]int64{locality.LeftShared: 2, locality.LeftBusy: 1}); got != "busy 1 shared 2" {
		t.Errorf("left %q", got)
	}
}
