package seeds_test

import (
	"context"
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
	if len(os.Args) > 1 && slices.Contains([]string{"load", "agent"}, os.Args[1]) {
		streams := cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}
		os.Exit(cli.Run(context.Background(), os.Args[1:], streams, "test"))
	}
	os.Exit(m.Run())
}

// TestSeedPrograms runs each arm of the experiments with programs of this machine once, with the real agent. Every arm
// has a figure, or the machine lacks something. Nothing is left.
func TestSeedPrograms(t *testing.T) {
	if os.Getenv("BERTH_SEEDS") != "require" {
		t.Skip("needs root, and programs that make test does not install; runs in: make verify-timing")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
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
	r, err := seeds.Run(t.Context(), seeds.Options{
		Options: bench.Options{Machine: machine, Repetitions: 1, Quick: true, Out: t.TempDir()},
		Place:   bench.Place{Host: host, Threshold: 100}, Root: root, Duration: time.Second,
		Names: []string{"nginx", "cal-pi", "apache"},
	})
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
	if machine.CPUs < 3 {
		want["nginx"] = "this machine lacks three CPUs: two for nginx to choose from, and one for wrk"
	}
	if diff := cmp.Diff(want, why); diff != "" {
		t.Errorf("not measured (-want +got), all programs are in the packages of tools/deps.sh all:\n%s", diff)
	}
	left, err := filepath.Glob(filepath.Join(os.TempDir(), "berth-*"))
	if err != nil || len(left) > 0 {
		t.Errorf("files are left: %q, %v", left, err)
	}
	if groups, err := scratch.Sweep(host, "", strings.TrimSuffix(bench.Prefix, "-")); err != nil || len(groups) > 0 {
		t.Errorf("groups are left: %q, %v", groups, err)
	}
}
