package demo_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/kernel/job"
)

// TestMain lets the test binary be the program that the demonstration starts
// as /proc/self/exe.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"load", "agent", "rollback", "tune"}, os.Args[1]) {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.Run(context.Background(), os.Args[1:], streams, "test"))
	}
	os.Exit(m.Run())
}

// home opens a home on the real host. Nothing of this test may be left there,
// or in the temporary directory, when it ends.
func home(t *testing.T) *demo.Home {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	temporary := t.TempDir()
	t.Setenv("TMPDIR", temporary)
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	h, err := demo.OpenHome(t.Context(), root)
	if errors.Is(err, demo.ErrUnsupported) {
		t.Skipf("%v; runs in the VM: make verify-kernels", err)
	}
	if err != nil {
		t.Fatal(err)
	}
	h.Place.Threshold = 100
	t.Cleanup(func() {
		mustBeGone(t, h.Place.Host, h.Place.Parent, temporary)
		if err := h.Close(); err != nil {
			t.Error(err)
		}
		_ = root.Close()
	})
	return h
}

func mustBeGone(t *testing.T, host *cgroup.Host, parent, temporary string) {
	t.Helper()
	hierarchy, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		t.Fatal(err)
	}
	groups, err := os.ReadDir(hierarchy.Mount + "/" + parent)
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
}

func machine(t *testing.T, h *demo.Home) *topology.Topology {
	t.Helper()
	found, err := topology.Discover(h.Place.Host.Root().FS())
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// options are those of a short demonstration. The part that writes a setting of the host runs only in a machine that
// belongs to the tests.
func options(t *testing.T, h *demo.Home) demo.Options {
	t.Helper()
	guest, err := job.Guest()
	if err != nil {
		t.Fatal(err)
	}
	var only []string
	if !guest {
		only = []string{"burst", "place", "isolate", "localize"}
	}
	return demo.Options{
		Home:    h,
		Host:    machine(t, h),
		Only:    only,
		Limit:   0.5,
		Pattern: load.Pattern{Rate: 10, Batch: 4, Regular: true},
		Work:    time.Millisecond,
		Rounds:  2,
		Slice:   300 * time.Millisecond,
		Arm:     300 * time.Millisecond,
	}
}

func TestDemoRestoresWhatItTouched(t *testing.T) {
	h := home(t)
	report, err := demo.Run(t.Context(), options(t, h))
	if err != nil && report == nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatalf("%v: %+v", err, report.Files)
	}
	if !report.Restored || len(report.Files) == 0 {
		t.Errorf("restored %v, files %+v", report.Restored, report.Files)
	}
	for _, p := range report.Parts {
		if p.Why == "" && (len(p.Rows) == 0 || p.Title == "") {
			t.Errorf("%s shows nothing: %+v", p.Capability, p)
		}
		if p.Why != "" && p.Capability != "localize" && len(machine(t, h).Cores) > 1 {
			t.Errorf("%s: %s", p.Capability, p.Why)
		}
	}
	if len(report.Notes) != 0 {
		t.Skipf("this machine has no CPU to spare: %s", report.Notes)
	}
	touched := 0
	for _, f := range report.Files {
		if f.During != f.Before {
			touched++
		}
		list := strings.HasPrefix(filepath.Base(f.File), "cpuset.") && f.Before == "" // the kernel does not let it be empty again
		if !f.Restored || f.After != f.Before && !list {
			t.Errorf("%s: %q before, %q after", f.File, f.Before, f.After)
		}
	}
	if touched == 0 {
		t.Error("the agent touched no file: the proof proves nothing")
	}
	if a := report.Arms[2]; a.Writes == 0 || a.Requests != report.Arms[0].Requests {
		t.Errorf("managed arm %+v", a)
	}
}

// TestInterruptedDemoLeavesNothing ends the context at each step that is
// announced, as Ctrl-C does; home checks what is left. Where not all repetitions are made it
// is the last step, when there is most to leave.
func TestInterruptedDemoLeavesNothing(t *testing.T) {
	steps := []string{
		"starting the server: limited", "starting berth agent", "round 1 of 2: limited", "place: starting", "place: pinned", "isolate: beside",
		"isolate: isolated", "killing the agent",
	}
	stride, err := job.Stride()
	if err != nil {
		t.Fatal(err)
	}
	if stride > 1 {
		steps = steps[len(steps)-1:]
	}
	for _, step := range steps {
		t.Run(step, func(t *testing.T) {
			h := home(t)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			o := options(t, h)
			o.Progress = func(what string) {
				if strings.HasPrefix(what, step) {
					cancel()
				}
			}
			if _, err := demo.Run(ctx, o); err == nil {
				t.Error("an interrupted demonstration reports success")
			}
		})
	}
}

func TestHomeSweepsWhatAKilledRunLeft(t *testing.T) {
	h := home(t)
	// No process can have this id: it is beyond the kernel's largest.
	left, err := scratch.New(h.Place.Host, h.Place.Parent, bench.Prefix+"left-4194305")
	if err != nil {
		t.Fatal(err)
	}
	again := home(t)
	if _, err := again.Place.Host.Group(left.Path()); !errors.Is(err, cgroup.ErrNoGroup) {
		t.Errorf("what a killed run left is still there: %v", err)
	}
	if err := left.Close(); err != nil {
		t.Errorf("close of a swept group: %v", err)
	}
}
