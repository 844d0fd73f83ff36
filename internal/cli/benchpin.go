package cli

import (
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
)

func newBenchPin(g *globals, threshold *int) *cobra.Command {
	var o bench.PinOptions
	cmd := &cobra.Command{
		Use:   "pin",
		Short: "Request latency beside a neighbour that takes all CPUs, with shared and with exclusive CPUs",
		Long: `Measures a limited request server alone; beside a neighbour with one busy thread for each
CPU, on the same CPUs; with CPUs of its own, which the agent gives it and keeps the
neighbour off; on its own CPUs without the neighbour; and alone again. All arms have the
same arrivals, and their order rotates.

The full run takes about eleven minutes; --quick takes a minute and cannot judge every
goal. The command needs two CPUs.`,
		Example: `  berth bench pin --quick
  berth bench pin --cpus 4 --out DIR`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			trial := o // report wrong flags before anything is made
			trial.Machine.CPUs = max(2, o.CPUs+1)
			if err := errors.Join(checkThreshold(*threshold), checkRuns(cmd, o.Repetitions, o.Duration), fillPin(cmd, &trial)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(_ *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				home.Place.Threshold = *threshold
				run := o
				run.Place, run.Machine, run.Progress = home.Place, machine, progressTo(cmd.ErrOrStderr())
				if machine.CPUs < 2 {
					return fmt.Errorf("%w: %w: exclusive CPUs on a machine with one CPU", ErrUnsupported, kernel.ErrNotSupported)
				}
				if err := fillPin(cmd, &run); err != nil {
					return err
				}
				return measure(cmd, format, run, bench.RunPin, bench.WritePinTable)
			})
		}),
	}
	victimFlags(cmd, &o.LoadOptions, pinDuration, "CPU of the server")
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "one minute instead of eleven")
	flags.IntVar(&o.CPUs, "cpus", 0, "the server's limit, and how many CPUs it has exclusively (default half of the machine)")
	return cmd
}

// pinDuration is the default load of one arm: five repetitions have 12,500 requests on one CPU, and p99 needs 10,000.
const pinDuration = 25 * time.Second

// fillPin sets flags that were not given, depending on --quick and the machine, and refuses bad values.
func fillPin(cmd *cobra.Command, o *bench.PinOptions) error {
	if !cmd.Flags().Changed("cpus") {
		o.CPUs = o.Machine.CPUs / 2
	}
	if o.CPUs < 1 {
		return usageError(fmt.Errorf("--cpus %d: allowed: 1 or more", o.CPUs))
	}
	if most := o.Machine.CPUs - 1; o.CPUs > most {
		return usageError(fmt.Errorf("--cpus %d: allowed: 1 to %d, as one CPU is the neighbour's", o.CPUs, most))
	}
	return fillVictim(&o.LoadOptions, pinDuration, o.CPUs)
}
