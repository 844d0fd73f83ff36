package seeds_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/cli"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/proof/seeds"
)

// TestMain is also the program of the children.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && slices.Contains([]string{"load", "agent", "tune"}, os.Args[1]) {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.Run(context.Background(), os.Args[1:], streams, "test"))
	}
	os.Exit(m.Run())
}

// options are those of a run with one short repetition on this machine, and a temporary directory that must be empty
// when the test ends.
func options(t *testing.T) seeds.Options {
	t.Helper()
	if os.Getenv("BERTH_SEEDS") != "require" {
		t.Skip("needs root, and programs that make test does not install; runs in: make verify-timing")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	host, err := cgroup.Open(root)
	if err != nil {
		t.Fatal(err)
	}
	machine, err := bench.Describe(root, host, "test")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil { // The workers of apache run as another user.
		t.Fatal(err)
	}
	t.Setenv("TMPDIR", dir)
	t.Cleanup(func() {
		left, err := filepath.Glob(filepath.Join(dir, "berth-*"))
		if err != nil || len(left) > 0 {
			t.Errorf("files are left: %q, %v", left, err)
		}
		if groups, err := scratch.Sweep(host, "", strings.TrimSuffix(bench.Prefix, "-")); err != nil || len(groups) > 0 {
			t.Errorf("groups are left: %q, %v", groups, err)
		}
		_ = root.Close()
	})
	return seeds.Options{
		Options: bench.Options{Machine: machine, Repetitions: 1, Quick: true, Out: t.TempDir()},
		Place:   bench.Place{Host: host, Threshold: 100}, Root: root, Duration: time.Second,
	}
}

// TestSeedPrograms runs each arm of the experiments with programs of this machine once, with the real agent. Every arm
// has a figure, or the machine lacks something. Nothing is left.
func TestSeedPrograms(t *testing.T) {
	o := options(t)
	o.Names = []string{"nginx", "cal-pi", "apache"}
	r, err := seeds.Run(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	why := map[string]string{}
	for _, m := range r.Experiments {
		if m.Why != "" {
			why[m.Name] = m.Why
			continue
		}
		for _, figure := range m.Results {
			for _, a := range figure.Arms {
				if enough := figure.Quantile == 0; enough != (a.Value != nil) || enough && *a.Value <= 0 {
					t.Errorf("%s: %s of %s is %v", m.Name, figure.Name, a.Arm, a.Value)
				}
			}
		}
	}
	want := map[string]string{}
	if o.Machine.CPUs < 3 {
		want["nginx"] = "this machine lacks three CPUs: two for nginx to choose from, and one for wrk"
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("not measured (-want +got), all programs are in the packages of tools/deps.sh all:\n%s", diff)
	}
}

// planned returns the plans of the profiles, which have the present values of all settings.
func planned(t *testing.T) string {
	t.Helper()
	var all string
	for _, name := range []string{"hpc-sched", "low-latency"} {
		said, err := bench.Command(t.Context(), "tune", "plan", name, "-o", "json")
		if err != nil {
			t.Fatal(err)
		}
		all += said
	}
	return all
}

// TestSeedProfiles applies each profile once. Every figure has a value or a reason. All settings are as before, also
// after an interrupt during an arm with a profile.
func TestSeedProfiles(t *testing.T) {
	o := options(t)
	o.Names = []string{"profiles"}
	before := planned(t)
	t.Run("whole", func(t *testing.T) {
		r, err := seeds.Run(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		m := r.Experiments[0]
		if len(m.Notes) == 0 || m.Why != "" {
			t.Errorf("not measured: %q, notes %q", m.Why, m.Notes)
		}
		for _, figure := range m.Results {
			for _, a := range figure.Arms {
				if figure.Quantile == 0 && (figure.Why == "") != (a.Value != nil) {
					t.Errorf("%s of %s is %v, reason %q", figure.Name, a.Arm, a.Value, figure.Why)
				}
			}
		}
		if diff := cmp.Diff(before, planned(t)); diff != "" {
			t.Errorf("settings (-before +after):\n%s", diff)
		}
	})
	t.Run("interrupted", func(t *testing.T) {
		ctx, stop := context.WithCancel(t.Context())
		ended, said := make(chan error), make(chan string, 2)
		o.Duration, o.Repetitions, o.Note = 2*time.Second, 1000, func(text string) { said <- text }
		go func() {
			_, err := seeds.Run(ctx, o)
			ended <- err
		}()
		applied := func() (bool, error) { return planned(t) != before, nil }
		alive := func() error {
			select {
			case err := <-ended:
				return fmt.Errorf("ended early: %w", errors.Join(err, bench.ErrChild))
			default:
				return nil
			}
		}
		if err := bench.Await(t.Context(), applied, alive); err != nil {
			t.Fatal(err)
		}
		stop()
		if err := <-ended; !errors.Is(err, context.Canceled) || errors.Is(err, bench.ErrNotUndone) {
			t.Errorf("error %v", err)
		}
		if note := <-said; !strings.Contains(note, "berth tune rollback --config "+os.TempDir()) {
			t.Errorf("no way back is said: %q", note)
		}
		if diff := cmp.Diff(before, planned(t)); diff != "" {
			t.Errorf("settings (-before +after):\n%s", diff)
		}
	})
}
