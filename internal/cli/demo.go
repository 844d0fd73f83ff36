package cli

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/load"
)

const (
	demoRounds = 3
	// demoMost limits the whole demonstration to less than two minutes.
	demoMost = 105 * time.Second
)

func newDemoCommand(g *globals) *cobra.Command {
	duration, threshold := 90*time.Second, bench.DefaultThreshold
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Run Berth on this host with real workloads, then prove that the host is as before",
		Long: `Starts a request server of its own under bursty load, without a limit, with a CPU
limit, and with the same limit and Berth's agent, and compares them in one table.
Then it kills the agent, rolls back, and shows that every file reads as before.
Needs root; takes less than two minutes; Ctrl-C at any time leaves the host clean.`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if err := checkThreshold(threshold); err != nil {
				return err
			}
			if duration < 3*time.Second || duration > demoMost {
				return usageError(fmt.Errorf("--duration %s: allowed: 3s..%s", duration, demoMost))
			}
			return withPlace(cmd, g, func(root *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				home.Place.Threshold = threshold
				return runDemo(cmd, format, root, demoOptions(home, machine, duration))
			})
		}),
	}
	cmd.Flags().DurationVar(&duration, "duration", duration, "time under load, all three arms together")
	thresholdFlag(cmd.Flags(), &threshold)
	return cmd
}

func demoOptions(home *demo.Home, machine bench.Machine, duration time.Duration) demo.Options {
	return demo.Options{
		Home:    home,
		Machine: machine,
		Limit:   bench.DefaultLimit,
		Pattern: load.Pattern{Seed: 1, Rate: bench.DefaultRate, Batch: bench.DefaultBatch},
		Work:    bench.DefaultWork,
		Rounds:  demoRounds,
		Slice:   duration / (3 * demoRounds),
	}
}

func runDemo(cmd *cobra.Command, format string, root *hostfs.Root, o demo.Options) error {
	o.Progress = progressTo(cmd.ErrOrStderr())
	machine, err := topology.Discover(root.FS())
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	o.Topology = demo.Outline(machine)
	report, failed := demo.Run(cmd.Context(), o)
	if report == nil {
		return fmt.Errorf("demo: %w", failed)
	}
	err = show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return demo.WriteTable(w, report) })
	if errors.Is(failed, demo.ErrNotRestored) {
		failed = fmt.Errorf("%w: %w", ErrDiffers, failed)
	}
	return errors.Join(failed, err)
}
