package bench_test

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// allowed returns the CPUs that this thread may use.
func allowed(t *testing.T) string {
	t.Helper()
	status, err := os.ReadFile("/proc/thread-self/status")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(status), "\nCpus_allowed_list:\t")
	list, _, _ := strings.Cut(rest, "\n")
	return list
}

// shortArms returns options to run every arm once on the real kernel. ended checks that the samples of all arms and the
// summary are there, and that this program is not restricted to CPUs of an arm. place checks that nothing is left.
func shortArms(t *testing.T) (root *hostfs.Root, o bench.LoadOptions, ended func(arms int)) {
	t.Helper()
	where := place(t)
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := root.Close(); err != nil {
			t.Error(err)
		}
	})
	machine, err := bench.Describe(root, where.Host, "test")
	if err != nil {
		t.Fatal(err)
	}
	before := allowed(t)
	o = bench.LoadOptions{
		Options: bench.Options{Machine: machine, Repetitions: 1, Quick: true, Out: t.TempDir()}, Place: where,
		Pattern: load.Pattern{Seed: 1, Rate: 20, Batch: 1}, Work: time.Millisecond, Duration: time.Second,
	}
	ended = func(arms int) {
		t.Helper()
		files, err := filepath.Glob(filepath.Join(o.Out, "*"))
		if err != nil || len(files) != arms+1 {
			t.Errorf("files %v, %v", files, err)
		}
		if now := allowed(t); now != before {
			t.Errorf("this program may run on %s, was %s", now, before)
		}
	}
	return root, o, ended
}

// TestInterference runs every arm once on the real kernel. All requests are made, and hogs use CPUs in the arms with
// hogs.
func TestInterference(t *testing.T) {
	root, o, ended := shortArms(t)
	r, err := bench.RunInterference(t.Context(), bench.InterferenceOptions{LoadOptions: o, Root: root, Reserve: bench.DefaultReserve})
	if err != nil {
		t.Fatal(err)
	}
	requests := r.Arms[0].Requests
	for _, a := range r.Arms {
		alone := a.Name == bench.Alone || a.Name == bench.AloneAgain || a.Name == bench.AloneOnCores
		if a.Requests != requests || a.Requests == 0 || a.Failed != 0 {
			t.Errorf("%s: %d requests, %d failed, want %d", a.Name, a.Requests, a.Failed, requests)
		}
		if alone && a.HogCPUs != nil {
			t.Errorf("%s: hogs used %g CPUs", a.Name, *a.HogCPUs)
		}
		known := !alone && !strings.HasPrefix(r.CoResidency, "unknown: ") && !strings.Contains(strings.Join(r.Notes, "\n"), "events of the scheduler were lost")
		if a.Together != nil != known || known && (*a.Together > 1 || a.Name == bench.OwnCores && *a.Together > 0) {
			t.Errorf("%s: server and hogs on one core for %v of the time, %s, notes %q", a.Name, a.Together, r.CoResidency, r.Notes)
		}
		waits := !strings.HasPrefix(r.Waiting, "unknown: ") && a.LostEvents == 0
		if (a.BehindOnline != nil) != waits || (a.BehindOffline != nil) != (waits && !alone) || waits && a.Waits == 0 {
			t.Errorf("%s: behind offline %v, online %v, %d waits, %s, notes %q", a.Name, a.BehindOffline, a.BehindOnline, a.Waits, r.Waiting, r.Notes)
		}
		if a.Name == bench.OwnCores && waits && *a.BehindOffline > 0 {
			t.Errorf("%s: the server waited behind hogs on other cores: %v", a.Name, *a.BehindOffline)
		}
		if a.HogCPUs != nil && *a.HogCPUs > float64(o.Machine.CPUs)+0.1 {
			t.Errorf("%s: hogs used %g of %d CPUs", a.Name, *a.HogCPUs, o.Machine.CPUs)
		}
	}
	if got := len(bench.InterferenceArms(o.Machine.CPUs > 1, o.Machine.CPUs > 1)); o.Machine.CPUs == 1 && len(r.Arms) != got {
		t.Errorf("%d arms, want %d", len(r.Arms), got)
	}
	ended(len(r.Arms))
}

// TestPin runs every arm of bench pin once on the real kernel: the agent gives the server CPUs of its own where the arm
// says so.
func TestPin(t *testing.T) {
	_, o, ended := shortArms(t)
	r, err := bench.RunPin(t.Context(), bench.PinOptions{LoadOptions: o, CPUs: 1})
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range r.Arms {
		if a.Requests != r.Arms[0].Requests || a.Requests == 0 || a.Failed != 0 {
			t.Errorf("%s: %d requests, %d failed, want %d", a.Name, a.Requests, a.Failed, r.Arms[0].Requests)
		}
		if pinned := a.Name == bench.Pinned || a.Name == bench.PinnedAlone; pinned != (a.Server.Size() == 1) || pinned && a.Server.Intersects(a.Neighbour) {
			t.Errorf("%s: server on %s, neighbour on %s", a.Name, a.Server, a.Neighbour)
		}
		if beside := a.Name == bench.Pinned || a.Name == bench.SharedCPUs; beside == a.Neighbour.IsEmpty() || beside != (a.NeighbourCPUs != nil) {
			t.Errorf("%s: neighbour on %q uses %v", a.Name, a.Neighbour, a.NeighbourCPUs)
		}
	}
	ended(len(r.Arms))
}

// A program that gets no CPU still ends, and its kill is not an error.
func TestStarvedProgramEnds(t *testing.T) {
	stage, err := bench.OpenStage(place(t), "starved", unit.NoLimit, "burn", "--threads", "1")
	if err != nil {
		t.Fatal(err)
	}
	pids, _, err := stage.Group().Handle().Processes()
	if err != nil || len(pids) != 1 {
		t.Fatal(pids, err)
	}
	if err := errors.Join(syscall.Kill(pids[0], syscall.SIGSTOP), stage.Kill()); err != nil {
		t.Error(err)
	}
}
