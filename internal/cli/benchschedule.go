package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/proof/bench"
)

// benchScheduleFlags are the flags of bench schedule. Zero means not given if the default depends on --quick.
type benchScheduleFlags struct {
	given    *pflag.FlagSet
	options  bench.ScheduleOptions
	programs []string
}

func newBenchSchedule(g *globals) *cobra.Command {
	f := &benchScheduleFlags{}
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "What the plugin costs the scheduler, on a real API server",
		Long: `Starts etcd, kube-apiserver and berth-scheduler, with nodes that are objects only,
and measures how fast pending pods are bound: by the same program without the
plugin, with it for pods that do not use it (also beside a pod that hides CPUs, and
with labels that the plugin reads), and with it for pods that do. The arms take turns.

With --side-by-side each turn has two schedulers at the same time, each with pods of its
own: one without the plugin, and one of an arm. So a disturbance meets both. One turn
has two without the plugin: their ratio shows the noise that is left. Pods that use the
plugin are not measured this way.

The programs are built with "go -C test/cluster run ./programs build" in Berth's
source tree, which prints where they are. The full run takes about half an hour on
two idle CPUs. Interrupted, it prints what it has so far.`,
		Example: `  berth bench schedule --programs DIR --quick
  berth bench schedule --programs DIR,DIR --nodes 1000,5000 --out out/schedule
  berth bench schedule --programs DIR --nodes 10000 --arms 'without Berth,Berth pinned'
  berth bench schedule --programs DIR --nodes 1000 --side-by-side`,
		Args: noArgs,
		RunE: benchmark(g, f.resolve, func(ctx context.Context, o bench.ScheduleOptions, machine bench.Machine, tell func(string)) (*bench.ScheduleReport, error) {
			o.Machine, o.Progress = machine, tell
			return bench.RunSchedule(ctx, o)
		}, bench.WriteScheduleTable),
	}
	f.define(cmd.Flags())
	return cmd
}

// define defines the flags.
func (f *benchScheduleFlags) define(flags *pflag.FlagSet) {
	o := &f.options
	f.given = flags
	flags.BoolVar(&o.Quick, "quick", false, "two minutes instead of half an hour")
	flags.StringVar(&o.Out, "out", "", "directory for the raw data, the logs and summary.json")
	flags.StringSliceVar(&f.programs, "programs", nil, "`DIR`s that have etcd, kube-apiserver, berth-scheduler and benchschedule")
	flags.IntSliceVar(&o.Nodes, "nodes", nil, "sizes of the cluster (default 1000,5000, quick 1000)")
	flags.IntSliceVar(&o.Percentages, "percentages", nil, "values of percentageOfNodesToScore, 0 is its default (default 0)")
	flags.IntVar(&o.Pods, "pods", 0, "pods of one run, side by side of each scheduler (default 10000, quick 300)")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions of every arm, best a multiple of the number of arms (default 5, side by side 4, quick 2)")
	flags.StringSliceVar(&o.Arms, "arms", bench.ScheduleArms(), "the arms to run; each is compared with "+bench.ScheduleOff)
	flags.BoolVar(&o.SideBySide, "side-by-side", false, "run each arm at the same time as "+bench.ScheduleOff+"; not "+bench.SchedulePinned)
}

func (f *benchScheduleFlags) resolve() (bench.ScheduleOptions, error) {
	o := f.options
	nodes, pods, reps := []int{1000, 5000}, 10_000, 5
	if o.SideBySide {
		reps = 4
	}
	if o.Quick {
		nodes, pods, reps = nodes[:1], 300, 2
	}
	if o.SideBySide && !f.given.Changed("arms") {
		o.Arms = bench.SideBySideArms()
	}
	if len(o.Nodes) == 0 {
		o.Nodes = nodes
	}
	if len(o.Percentages) == 0 {
		o.Percentages = []int{0}
	}
	fillIn(f.given, "pods", &o.Pods, pods)
	fillIn(f.given, "reps", &o.Repetitions, reps)
	if err := f.check(o); err != nil {
		return o, err
	}
	var err error
	if o.Programs, err = bench.FindPrograms(f.programs...); err != nil {
		return o, usageError(fmt.Errorf("--programs: %w; build them with: go -C test/cluster run ./programs build", err))
	}
	return o, nil
}

func (f *benchScheduleFlags) check(o bench.ScheduleOptions) error {
	var errs []error
	for _, n := range o.Nodes {
		if n < 1 || n > 20_000 {
			errs = append(errs, usageError(fmt.Errorf("--nodes %d: allowed: 1..20000", n)))
		}
		if most := mostPods(o, n); o.Pods < 10 || o.Pods > most {
			errs = append(errs, usageError(fmt.Errorf("--pods %d: allowed: 10..%d on %d nodes", o.Pods, most, n)))
		}
	}
	for _, p := range o.Percentages {
		if p < 0 || p > 100 {
			errs = append(errs, usageError(fmt.Errorf("--percentages %d: allowed: 0..100", p)))
		}
	}
	errs = append(errs, checkScheduleArms(o))
	if o.Repetitions < 2 || o.Repetitions > 100 {
		errs = append(errs, usageError(fmt.Errorf("--reps %d: allowed: 2..100", o.Repetitions)))
	}
	if len(f.programs) == 0 {
		errs = append(errs, usageError(errors.New("--programs: needed: where etcd, kube-apiserver, berth-scheduler and benchschedule are")))
	}
	return errors.Join(errs...)
}

// mostPods is the limit of pods of one scheduler: all pods need only half of the CPUs, so every pod fits on any node.
func mostPods(o bench.ScheduleOptions, nodes int) int {
	if o.SideBySide {
		return nodes * 16
	}
	return nodes * 32
}

func checkScheduleArms(o bench.ScheduleOptions) error {
	if o.SideBySide && slices.Contains(o.Arms, bench.SchedulePinned) {
		return usageError(fmt.Errorf("--arms %q: not with --side-by-side; allowed: %s", bench.SchedulePinned, strings.Join(bench.SideBySideArms(), ", ")))
	}
	return checkArms(o.Arms, bench.ScheduleArms(), bench.ScheduleOff)
}
