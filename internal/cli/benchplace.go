package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/proof/bench"
)

// benchPlaceFlags are the flags of bench place; some defaults depend on --quick.
type benchPlaceFlags struct {
	given      *pflag.FlagSet
	options    bench.PlaceOptions
	topologies []string
}

func newBenchPlace(g *globals) *cobra.Command {
	f := &benchPlaceFlags{}
	cmd := &cobra.Command{
		Use:         "place",
		Short:       "How fast cores are chosen, and how well, beside the kubelet and Koordinator",
		Annotations: promise(),
		Long: `Times single decisions on a generated machine with 512 CPUs, then plays traces of
pods that come and go on generated machines: the same arrivals to Berth's
allocator and to emulations of the kubelet's and Koordinator's rules.

It works on paper: it needs no privilege and changes nothing. The full run takes
about three minutes on two CPUs; --quick takes some ten seconds and judges no trace.`,
		Example: `  berth bench place --quick
  berth bench place --topology machine.txtar --out out/place`,
		Args: noArgs,
		RunE: benchmark(g, f.resolve, func(ctx context.Context, o bench.PlaceOptions, machine bench.Machine, tell func(string)) (*bench.PlaceReport, error) {
			o.Machine, o.Progress = machine, tell
			return bench.RunPlace(ctx, o)
		}, bench.WritePlaceTable),
	}
	o, flags := &f.options, cmd.Flags()
	f.given = flags
	flags.BoolVar(&o.Quick, "quick", false, "some ten seconds instead of three minutes")
	flags.StringVar(&o.Out, "out", "", "directory for the raw data and summary.json")
	flags.IntVar(&o.Events, "events", 0, "arrivals and departures of one trace (default 100000, quick 5000)")
	flags.IntVar(&o.Repetitions, "reps", 0, "traces, each with a seed of its own (default 10, quick 3)")
	flags.IntVar(&o.Calls, "calls", 0, "decisions timed of each kind (default 5000, quick 1000)")
	flags.Uint64Var(&o.Seed, "seed", 1, "seed of the first trace")
	flags.StringArrayVar(&f.topologies, "topology", nil,
		"place on this machine too: a `FILE` made with berth topology -o json, -o yaml or --capture")
	return cmd
}

func (f *benchPlaceFlags) resolve() (bench.PlaceOptions, error) {
	o := f.options
	events, reps, calls := 100_000, 10, 5000
	if o.Quick {
		events, reps, calls = 5000, 3, 1000
	}
	fillIn(f.given, "events", &o.Events, events)
	fillIn(f.given, "reps", &o.Repetitions, reps)
	fillIn(f.given, "calls", &o.Calls, calls)
	if o.Events < 2 || o.Events > 10_000_000 {
		return o, usageError(fmt.Errorf("--events %d: allowed: 2..10000000", o.Events))
	}
	if o.Repetitions < 2 || o.Repetitions > 100 {
		return o, usageError(fmt.Errorf("--reps %d: allowed: 2..100", o.Repetitions))
	}
	if o.Calls < 10 || o.Calls > 1_000_000 {
		return o, usageError(fmt.Errorf("--calls %d: allowed: 10..1000000", o.Calls))
	}
	o.Machines = bench.GeneratedMachines()
	for _, file := range f.topologies {
		m, err := placeMachine(file)
		if err != nil {
			return o, usageError(fmt.Errorf("--topology %s: allowed: %s: %w", file, machineForms, err))
		}
		o.Machines = append(o.Machines, m)
	}
	return o, nil
}

// fillIn sets a number whose flag was not given. An explicit 0 remains, and is refused like any other bad value.
func fillIn(given *pflag.FlagSet, name string, number *int, otherwise int) {
	if !given.Changed(name) {
		*number = otherwise
	}
}

// placeMachine reads a machine and names it after its file.
func placeMachine(file string) (bench.PlaceMachine, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return bench.PlaceMachine{}, fmt.Errorf("read: %w", err)
	}
	t, err := readTopology(text)
	if err != nil {
		return bench.PlaceMachine{}, err
	}
	name := strings.TrimSuffix(filepath.Base(file), filepath.Ext(file))
	return bench.PlaceMachine{Name: fmt.Sprintf("%s (%d CPUs)", name, t.Online.Size()), Topology: t}, nil
}

// benchmark returns the run function of a command that measures without making groups and prints a report. A run that
// ended early may return both a partial report and an error.
func benchmark[O, R any](
	g *globals, resolve func() (O, error),
	run func(context.Context, O, bench.Machine, func(string)) (*R, error), table func(io.Writer, *R) error,
) func(*cobra.Command, []string) error {
	return formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
		o, err := resolve()
		if err != nil {
			return err
		}
		machine, err := g.benchMachine(cmd)
		if err != nil {
			return err
		}
		report, err := run(cmd.Context(), o, machine, progressTo(cmd.ErrOrStderr()))
		if err != nil {
			err = fmt.Errorf("bench %s: %w", cmd.Name(), err)
		}
		if report == nil {
			return err
		}
		return errors.Join(err, show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return table(w, report) }))
	})
}

// benchMachine describes this machine for a benchmark without groups.
func (g *globals) benchMachine(cmd *cobra.Command) (bench.Machine, error) {
	if g.Root != "/" {
		return bench.Machine{}, usageError(fmt.Errorf("--root %s: %s measures on the live host; allowed: /", g.Root, cmd.CommandPath()))
	}
	root, err := g.openRoot()
	if err != nil {
		return bench.Machine{}, err
	}
	defer root.Close()
	machine, err := bench.Describe(root, nil, cmd.Root().Version)
	if err != nil {
		return bench.Machine{}, fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	return machine, nil
}
