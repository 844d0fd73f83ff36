package bench_test

import (
	"context"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

var _ = flag.Bool("update", false, "rewrite the golden files")

// TestMain lets the test binary act as the program that stages start as /proc/self/exe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"load", "agent"}, os.Args[1]) {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.Run(context.Background(), os.Args[1:], streams, "test"))
	}
	os.Exit(m.Run())
}

// place returns the root of the real hierarchies. At the end of the test, nothing of it may be left there or in the
// temporary directory.
func place(t *testing.T) bench.Place {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("needs root to make cgroups; runs in the VM: make verify-kernels")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		t.Skipf("needs cgroups (%v); runs in the VM: make verify-kernels", err)
	}
	probe, err := scratch.New(host, "", scratch.Name("bench-probe"))
	if err != nil {
		t.Skipf("needs writable cgroups (%v); runs in the VM: make verify-kernels", err)
	}
	if err := probe.Close(); err != nil {
		t.Fatal(err)
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	t.Cleanup(func() {
		mustBeGone(t, host, temporary)
		_ = root.Close()
	})
	return bench.Place{Host: host, Threshold: 100}
}

func mustBeGone(t *testing.T, host *cgroup.Host, temporary string) {
	t.Helper()
	hierarchy, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadDir(hierarchy.Mount)
	if err != nil {
		t.Fatal(err)
	}
	mine := strings.TrimPrefix(scratch.Name(""), scratch.Prefix)
	for _, g := range groups {
		if strings.HasPrefix(g.Name(), bench.Prefix) && strings.HasSuffix(g.Name(), mine) {
			t.Errorf("group %s is left", g.Name())
		}
	}
	if left, _ := os.ReadDir(temporary); len(left) != 0 {
		t.Errorf("%s is left in the temporary directory", left[0].Name())
	}
	children, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range children {
		if pids, _ := os.ReadFile(file); len(strings.TrimSpace(string(pids))) > 0 {
			t.Errorf("child processes are left: %s", pids)
		}
	}
}

func arrivals(t *testing.T, d time.Duration) []time.Duration {
	t.Helper()
	list, err := load.Pattern{Rate: 10, Batch: 4, Regular: true}.Arrivals(d)
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestArms runs every arm on the real kernel. It checks that the arm did what its name says and left nothing.
func TestArms(t *testing.T) {
	for _, name := range append(bench.AllArmNames(), bench.Peer) {
		t.Run(name, func(t *testing.T) {
			where := place(t)
			requests := arrivals(t, 500*time.Millisecond)
			got, err := bench.Arm{
				Place: where, Name: name, Limit: 0.5, Work: time.Millisecond, Arrivals: requests,
				Peer: bench.PeerOptions{Command: []string{"/proc/self/exe", "load", "serve"}},
			}.Run(t.Context())
			if errors.Is(err, bench.ErrNotRaised) {
				t.Skipf("this machine has no CPU to spare: %v", err)
			}
			if err != nil {
				t.Fatal(err)
			}
			if len(got.Samples) != len(requests) || load.Failures(got.Samples) != 0 {
				t.Errorf("%d samples of %d requests, %d failed", len(got.Samples), len(requests), load.Failures(got.Samples))
			}
			if least := time.Duration(len(requests)) * time.Millisecond; got.CPU < least {
				t.Errorf("the group used %s for %s of requests", got.CPU, least)
			}
			unlimited := name == bench.Unlimited || name == bench.Unlimited2
			if unlimited != (got.Periods == 0) {
				t.Errorf("%d periods under a limit", got.Periods)
			}
			if wrote := name == bench.Berth || name == bench.KernelBurst; wrote && got.Writes == 0 {
				t.Error("no write is counted")
			}
			if name == bench.GoDefaultAlone && got.Writes != 0 {
				t.Errorf("%d writes without an agent", got.Writes)
			}
			if goes := slices.Contains(bench.RequestedArmNames(), name); goes != (got.Procs.Threads > 0) || goes != (got.Procs.Max > 0) {
				t.Errorf("Go's runtime: %+v", got.Procs)
			}
		})
	}
}

// TestNeighbours runs an arm with two neighbours on the real kernel, whose arrivals go on when the server's have ended. The
// limit leaves each of them a quarter of a CPU to start.
func TestNeighbours(t *testing.T) {
	where := place(t)
	requests, longer := arrivals(t, 200*time.Millisecond), arrivals(t, 800*time.Millisecond)
	got, err := bench.Arm{
		Place: where, Name: bench.QuotaOnly, Limit: 1, Work: time.Millisecond, Arrivals: requests,
		Neighbours: [][]time.Duration{longer, longer},
	}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Samples) != len(requests) || len(got.Beside) != 2 {
		t.Fatalf("%d samples of %d requests, %d neighbours", len(got.Samples), len(requests), len(got.Beside))
	}
	for i, n := range got.Beside {
		if len(n.Samples) != len(longer) || load.Failures(n.Samples) != 0 {
			t.Errorf("neighbour %d: %d samples of %d requests, %d failed", i+1, len(n.Samples), len(longer), load.Failures(n.Samples))
		}
		if least := time.Duration(len(longer)) * time.Millisecond; n.CPU < least || n.Periods == 0 || n.Elapsed <= 0 {
			t.Errorf("neighbour %d: used %s for %s of requests in %s, %d periods", i+1, n.CPU, least, n.Elapsed, n.Periods)
		}
	}
}

// TestInterruptedArmLeavesNothing ends the context while requests of server and neighbour are running. place checks that
// nothing is left.
func TestInterruptedArmLeavesNothing(t *testing.T) {
	where := place(t)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	requests := []time.Duration{0, time.Hour}
	_, err := bench.Arm{
		Place: where, Name: bench.Koordinator, Limit: 1, Work: time.Millisecond, Arrivals: requests, Neighbours: [][]time.Duration{requests},
	}.Run(ctx)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("interrupted arm: %v", err)
	}
}

// TestEmulationRaisesThrottledGroup runs the emulated loop with a group that is always throttled. The limit must start
// and warm a server on the slowest virtual machine within the stage's time: 20 s are 5 CPU-seconds. The requests need
// 2.4, all at once, which is about six periods of the loop.
func TestEmulationRaisesThrottledGroup(t *testing.T) {
	where := place(t)
	got, err := bench.Arm{Place: where, Name: bench.Koordinator, Limit: 0.25, Work: 40 * time.Millisecond, Arrivals: make([]time.Duration, 60)}.Run(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if got.Throttled == 0 || got.Writes == 0 {
		t.Errorf("%d throttled periods, %d writes, want some of both", got.Throttled, got.Writes)
	}
}

func TestStageRefusesAnotherHostsName(t *testing.T) {
	where := place(t)
	where.Parent = "berth-test-there-is-no-such-group"
	if _, err := bench.OpenStage(where, "x", unit.NoLimit, "hold"); err == nil {
		t.Error("a stage below a missing group opens")
	}
}

// TestAbuse runs the abuser that strikes on the real kernel: the quota falls to the limit while it works. The bound
// has the lateness of the agent, and the longest call where the kernel needs it. A quarter of a CPU is enough to spend
// the credit of so small a limit in one turn of work, also beside other programs.
func TestAbuse(t *testing.T) {
	where := place(t)
	const limit = 0.1
	r, err := bench.RunBurst(t.Context(), bench.BurstOptions{
		LoadOptions: bench.LoadOptions{Place: where}, Limit: limit,
		Abuse: bench.AbuseOptions{Limit: limit, Threads: 2, CreditSeconds: 4, Measure: 5 * time.Second, Abusers: []string{"strikes"}},
	})
	if errors.Is(err, bench.ErrNotRaised) || errors.Is(err, bench.ErrNotSpent) {
		t.Skipf("this machine has no CPU to spare: %v", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	if len(r.Abusers) != 1 {
		t.Fatalf("%+v", r.Abusers)
	}
	if a := r.Abusers[0]; a.Mode != "strikes" || a.Strikes == 0 || a.Looks == 0 || a.ExcessSeconds <= 0 {
		t.Errorf("%+v", a)
	}
	if alone := r.Abusers[0].Alone; alone == nil || alone.Looks == 0 || alone.MeanCPUs <= 0 || r.Abusers[0].Threshold != 100 {
		t.Errorf("limit alone %+v, threshold %d", alone, r.Abusers[0].Threshold)
	}
	throttlesAtOnce, err := kernel.Before(where.Host.Root(), 6, 18)
	if err != nil {
		t.Fatal(err)
	}
	b := r.Abusers[0].Bound
	if b == nil || b.WithoutKernelMode <= r.Abusers[0].CreditSeconds {
		t.Fatalf("bound %+v", b)
	}
	if throttlesAtOnce != (b.KernelModeSeconds == 0) || throttlesAtOnce != (b.Seconds == b.WithoutKernelMode) {
		t.Errorf("bound %+v, throttled at once: %v", b, throttlesAtOnce)
	}
}
