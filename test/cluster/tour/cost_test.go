package main

import (
	"bytes"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/proof/bench"
)

// TestCostFlags checks that invalid measurements are refused, and the number of groups.
func TestCostFlags(t *testing.T) {
	for _, args := range []string{"--reps=0", "--rest=0s", "--settle=-1s", "--trace=-1s", "--pods=0", "--pods=101", "--no-such-flag", "word"} {
		if _, err := parseCost(strings.Fields(args), io.Discard); err == nil {
			t.Errorf("%s is taken", args)
		}
	}
	b, err := parseCost(nil, io.Discard)
	if err != nil || b.report.Groups != 250 || b.reps != 3 {
		t.Errorf("%d groups, %d rounds, %v, want 250 and 3", b.report.Groups, b.reps, err)
	}
	b, err = parseCost([]string{"--quick"}, io.Discard)
	if err != nil || b.reps != 1 || b.rest != 20*time.Second {
		t.Errorf("--quick: %d rounds of %s, %v", b.reps, b.rest, err)
	}
	b.report.Rounds = []costRound{{Rest: phase{AgentMillis: 0.1}, With: phase{AgentMillis: 0.2}}}
	if g := b.report.judge(); g[0].Verdict != bench.Open || g[1].Verdict != bench.Open || g[2].Verdict != bench.Met {
		t.Errorf("--quick: %+v", g)
	}
}

// TestCostGoals checks the arithmetic and each verdict.
func TestCostGoals(t *testing.T) {
	round := func(rest, with, rss float64) costRound {
		return costRound{Rest: phase{AgentMillis: rest, RSSMiB: 1}, With: phase{AgentMillis: with, RSSMiB: rss}}
	}
	noisy := round(0.9, 10.9, 50)
	noisy.With.Steal = 0.06
	others := round(0.9, 10.9, 50)
	others.Rest.Others = 0.06
	for name, c := range map[string]struct {
		rounds               []costRound
		measured             string
		rest, group, resides bench.Verdict
	}{
		"met":            {[]costRound{round(1, 11, 60)}, "40.0 (40.0 to 40.0)", bench.Met, bench.Met, bench.Met},
		"missed":         {[]costRound{round(1.1, 11.2, 60.1)}, "40.4 (40.4 to 40.4)", bench.Missed, bench.Missed, bench.Missed},
		"median":         {[]costRound{round(9, 9, 1), round(1, 6, 1), round(0.5, 8, 61)}, "20.0 (0.0 to 30.0)", bench.Met, bench.Met, bench.Missed},
		"stolen":         {[]costRound{round(1, 11, 1), noisy}, "40.0 (40.0 to 40.0); others used 6 % of the machine", bench.Open, bench.Open, bench.Met},
		"other programs": {[]costRound{others}, "40.0 (40.0 to 40.0); others used 6 % of the machine", bench.Open, bench.Open, bench.Met},
	} {
		t.Run(name, func(t *testing.T) {
			r := costReport{Groups: 250, Rounds: c.rounds}
			g := r.judge()
			if g[0].Verdict != c.rest || g[1].Verdict != c.group || g[2].Verdict != c.resides || g[1].Measured != c.measured {
				t.Errorf("%+v", g)
			}
			r.Goals = g
			var out bytes.Buffer
			if err := r.print(&out); err != nil || !strings.Contains(out.String(), c.measured) {
				t.Errorf("%v: %s", err, &out)
			}
		})
	}
}

// TestCostThreads checks that the report has the threads of both phases of the last round.
func TestCostThreads(t *testing.T) {
	traced := func(id int) phase { return phase{Threads: []threadCost{{ID: id, Millis: 0.25, Switches: 12}}} }
	r := costReport{Groups: 250, Rounds: []costRound{{Rest: traced(1), With: traced(2)}, {Rest: traced(3), With: traced(4)}}}
	want := [][]string{{"2", "0", "3", "0.250", "12.0"}, {"2", "250", "4", "0.250", "12.0"}}
	if got := r.threads(); !slices.EqualFunc(got, want, slices.Equal) {
		t.Errorf("%q, want %q", got, want)
	}
	var out bytes.Buffer
	if err := r.print(&out); err != nil || strings.Count(out.String(), " 0.250") != 2 {
		t.Errorf("%v: %s", err, &out)
	}
}

// TestCostBetweenReadings checks that the cluster's own CPU time is none of other programs.
func TestCostBetweenReadings(t *testing.T) {
	begin := time.Now()
	before := reading{at: begin, agent: time.Second, switches: 100, cluster: 10 * time.Second, busy: 100, steal: 5}
	after := reading{at: begin.Add(10 * time.Second), agent: time.Second + 20*time.Millisecond, switches: 400, rss: 40, cluster: 12 * time.Second, busy: 103, steal: 5.5}
	if p := after.since(before, 2); math.Abs(p.AgentMillis-2) > 1e-9 || p.Switches != 30 || p.RSSMiB != 40 || p.Steal != 0.025 || p.Others != 0.05 {
		t.Errorf("%+v", p)
	}
	busy, steal, err := machineTime("cpu  100 200 300 9999 8888 10 20 700 0 0\ncpu0 1 1 1 1 1 1 1 1\n")
	if err != nil || busy != 6.3 || steal != 7 {
		t.Errorf("%g busy, %g steal, %v", busy, steal, err)
	}
	if _, _, err := machineTime("intr 1"); err == nil {
		t.Error("a file without the line is taken")
	}
}

// TestIdlePod checks what makes the agent raise five groups.
func TestIdlePod(t *testing.T) {
	pod := idlePod("idle-0")
	if len(pod.Spec.Containers) != 4 || pod.Annotations[v1alpha1.AnnotationCPUBurst] != `{"policy": "auto"}` {
		t.Errorf("%+v", pod)
	}
	for _, c := range pod.Spec.Containers {
		limit, request := c.Resources.Limits[v1.ResourceCPU], c.Resources.Requests[v1.ResourceCPU]
		if limit.MilliValue() != 100 || request.MilliValue() != 2 {
			t.Errorf("%s: limit %s, request %s", c.Name, &limit, &request)
		}
	}
}

// TestRaisedIn checks that only raised containers of the benchmark count.
func TestRaisedIn(t *testing.T) {
	const text = `# TYPE berth_cpu_quota_cpus gauge
berth_cpu_quota_cpus{container="idle0",namespace="berth-tour",pod="idle-0",workload=""} 0.29998
berth_cpu_quota_cpus{container="idle1",namespace="berth-tour",pod="idle-0",workload=""} 0.1
berth_cpu_quota_cpus{container="",namespace="berth-tour",pod="idle-0",workload=""} 1.2
berth_cpu_quota_cpus{container="idle0",namespace="other",pod="idle-0",workload=""} 0.3
berth_cpu_limit_cpus{container="idle2",namespace="berth-tour",pod="idle-0",workload=""} 0.3
`
	if n := raisedIn([]byte(text)); n != 1 {
		t.Errorf("%d raised, want 1", n)
	}
}

// TestAgentThreads finds the processes of a container on both cgroup versions, and what their threads used.
func TestAgentThreads(t *testing.T) {
	proc := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		file := filepath.Join(proc, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	write("7/cgroup", "0::/berth-cluster/kubepods/podx/abc\n")
	write("8/cgroup", "4:cpu,cpuacct:/berth-cluster/kubepods/burstable/podx/abc\n")
	write("9/cgroup", "0::/berth-cluster/kubepods/podx/abcd\n")
	pids, err := processesOf(proc, "abc")
	if slices.Sort(pids); err != nil || !slices.Equal(pids, []int{7, 8}) {
		t.Errorf("%v, %v", pids, err)
	}
	if _, err := processesOf(proc, "gone"); err == nil {
		t.Error("a container without processes is taken")
	}
	write("7/task/70/schedstat", "1000000 0 1")
	write("7/task/70/status", "Name:\tx\nvoluntary_ctxt_switches:\t10\nnonvoluntary_ctxt_switches:\t1\n")
	before := threadsOf(proc, pids)
	write("7/task/70/schedstat", "5000000 0 1")
	write("7/task/70/status", "Name:\tx\nvoluntary_ctxt_switches:\t18\nnonvoluntary_ctxt_switches:\t3\n")
	write("8/task/80/schedstat", "10000000 0 1")
	write("8/task/80/status", "Name:\tx\nvoluntary_ctxt_switches:\t4\n")
	want := []threadCost{{ID: 80, Millis: 5, Switches: 2}, {ID: 70, Millis: 2, Switches: 5}}
	if got := threadsSince(before, threadsOf(proc, pids), 2); !slices.Equal(got, want) {
		t.Errorf("%+v, want %+v", got, want)
	}
}

// TestClusterTime finds the servers, which are in the cluster's group of one hierarchy only, and the pods, and no other
// program.
func TestClusterTime(t *testing.T) {
	proc := t.TempDir()
	process := func(pid, groups, stat string) {
		t.Helper()
		dir := filepath.Join(proc, pid)
		if err := errors.Join(os.MkdirAll(dir, 0o755),
			os.WriteFile(filepath.Join(dir, "cgroup"), []byte(groups), 0o644), os.WriteFile(filepath.Join(dir, "stat"), []byte(stat), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	const ids = "1 1 1 0 -1 4194560 1 2 3 4 "
	process("7", "9:pids:/berth-cluster/system\n4:cpu,cpuacct:/\n0::/\n", "7 (kube-apiserver) S "+ids+"100 20 3 4 20 0 9 0 1\n")
	process("8", "9:pids:/berth-cluster/kubepods/pod1/abc\n4:cpu,cpuacct:/berth-cluster/kubepods/pod1/abc\n", "8 (a b) c) S "+ids+"1000 0 0 0 20 0 9 0 1\n")
	process("9", "0::/berth-cluster\n", "9 (x) S "+ids+"0 10000 0 0 20 0 9 0 1\n")
	process("10", "9:pids:/berth-cluster2\n0::/other/berth-cluster\n", "10 (y) S "+ids+"5 5 5 5 20 0 9 0 1\n")
	used, err := clusterTime(proc)
	if want := 111270 * time.Millisecond; err != nil || used != want {
		t.Errorf("%v, %v, want %v", used, err, want)
	}
	for _, stat := range []string{"", "7 (x) S 1 2", "7 (x) S " + ids + "a 0 0 0 0"} {
		if _, err := ticksOf(stat); err == nil {
			t.Errorf("%q is taken", stat)
		}
	}
}
