package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
)

func newBenchInterference(g *globals) *cobra.Command {
	var o bench.InterferenceOptions
	cmd := &cobra.Command{
		Use:   "interference",
		Short: "Request latency beside work that takes all CPUs, with each way to keep it off",
		Long: `Measures a request server alone, and beside one busy thread for each CPU. The arms treat
these threads differently: default shares; the lowest weight (as the kubelet gives
BestEffort pods); a quota of 80 % of the machine; idle (cpu.idle); idle and kept off a few
CPUs of each L3 (a pull reserve); and cores of their own, as the law of the boundary
chooses them. One more arm is the server alone again. All arms have the same arrivals,
and their order rotates.

The full run takes about eleven minutes; --quick takes two minutes and cannot judge
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
	victimFlags(cmd, &o.LoadOptions, interferenceDuration, "CPU")
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "two minutes instead of eleven")
	flags.IntVar(&o.Reserve, "reserve", bench.DefaultReserve, "`PERCENT` of the CPUs of each L3 in the reserve, 0 to 50; 0 leaves that arm out")
	return cmd
}

// interferenceDuration is the default load of one arm.
const interferenceDuration = 15 * time.Second

// fillInterference sets flags that were not given, depending on --quick, and refuses bad values.
func fillInterference(o *bench.InterferenceOptions) error {
	if o.Reserve < 0 || o.Reserve > 50 {
		return usageError(fmt.Errorf("--reserve %d: allowed: 0 to 50", o.Reserve))
	}
	return fillVictim(&o.LoadOptions, interferenceDuration, o.Machine.CPUs)
}
