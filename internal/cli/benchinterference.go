package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/load"
)

func newBenchInterference(g *globals) *cobra.Command {
	o := bench.InterferenceOptions{LoadOptions: bench.LoadOptions{Pattern: load.Pattern{Batch: 1}}}
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Request latency beside work that takes all CPUs, with each way to keep it off",
		Long: `Measures a request server alone, and beside one busy thread for each CPU. The arms treat
these threads differently: default shares; the lowest weight (as the kubelet gives
BestEffort pods); a quota of 80 % of the machine; idle (cpu.idle); idle and kept off a few
CPUs of each L3 (a pull reserve); and cores of their own, as the law of the boundary
chooses them. One more arm is the server alone again. All arms have the same arrivals,
and their order rotates.

The full run takes about fourteen minutes; --quick takes two minutes and cannot judge
every goal. The command needs cpu.idle (Linux 5.15).`,
		Example: `  berth bench interference --quick
  berth bench interference --out DIR`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			trial := o // report wrong flags before anything is made
			trial.Machine.CPUs = 1
			if err := errors.Join(checkRuns(cmd, o.Repetitions, o.Duration), fillInterference(&trial)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(root *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				run := o
				run.Place, run.Machine, run.Root, run.Progress = home.Place, machine, root, progressTo(cmd.ErrOrStderr())
				if err := fillInterference(&run); err != nil {
					return err
				}
				return measure(cmd, format, run, bench.RunInterference, bench.WriteInterferenceTable)
			})
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "two minutes instead of fourteen")
	flags.StringVar(&o.Out, "out", "", "directory for the raw samples and summary.json")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 5, quick 3)")
	flags.DurationVar(&o.Duration, "duration", 0, "load of one arm (default 15s, quick 4s)")
	flags.Float64Var(&o.Pattern.Rate, "rate", 0, "requests per second (default 100 for each CPU, at most 2000)")
	flags.DurationVar(&o.Work, "work", bench.DefaultVictimWork, "CPU time of one request")
	flags.IntVar(&o.Reserve, "reserve", bench.DefaultReserve, "`PERCENT` of the CPUs of each L3 in the reserve, 0 to 50; 0 leaves that arm out")
	flags.Uint64Var(&o.Pattern.Seed, "seed", 1, "seed of the arrivals")
	return cmd
}

// mostVictimRate bounds the default rate on a large machine.
const mostVictimRate = 2000

// fillInterference sets flags that were not given, depending on --quick, and refuses bad values.
func fillInterference(o *bench.InterferenceOptions) error {
	reps, duration := 5, 15*time.Second
	if o.Quick {
		reps, duration = 3, 4*time.Second
	}
	o.Repetitions, o.Duration = cmp.Or(o.Repetitions, reps), cmp.Or(o.Duration, duration)
	o.Pattern.Rate = cmp.Or(o.Pattern.Rate, min(bench.DefaultVictimRate*float64(o.Machine.CPUs), mostVictimRate))
	if o.Work <= 0 || o.Work > load.MaxWork {
		return usageError(fmt.Errorf("--work %s: allowed: above 0, at most %s", o.Work, load.MaxWork))
	}
	if o.Reserve < 0 || o.Reserve > 50 {
		return usageError(fmt.Errorf("--reserve %d: allowed: 0 to 50", o.Reserve))
	}
	if _, err := o.Pattern.Arrivals(o.Duration); err != nil {
		return usageError(err)
	}
	return nil
}
