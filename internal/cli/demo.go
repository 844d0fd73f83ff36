package cli

import (
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/load"
)

const (
	demoRounds = 3
	// demoBurst is how long burst is under load, demoMost the most.
	demoBurst = time.Minute
	demoMost  = 105 * time.Second
	// demoArm is how long one arm of the other parts is under load: long enough for a p99.
	demoArm = 6 * time.Second
)

func newDemoCommand(g *globals) *cobra.Command {
	duration, threshold := demoBurst, bench.DefaultThreshold
	cmd := &cobra.Command{
		Use:   "demo [CAPABILITY]...",
		Short: "Run Berth on this host with real workloads, then prove that the host is as before",
		Long: `Shows each capability that this host has, in one table each, on groups of its own:

  burst     a request server without a limit, with a CPU limit, and with Berth's agent
  place     a server beside a neighbour that takes all CPUs, and with a CPU of its own
  isolate   a server beside offline work that takes all CPUs, and isolated from it
  localize  memory on the wrong NUMA node, moved (needs two nodes)
  tune      what a profile would change here; a harmless setting, applied and verified

Each time, it then kills the agent and rolls back. In the end it shows that every file
that Berth changed is as before. Needs root; takes less than three minutes; Ctrl-C at
any time leaves the host clean.`,
		Example: `  berth demo
  berth demo place isolate`,
		ValidArgs: demo.Capabilities(),
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			if err := errors.Join(checkDemo(args, duration), checkThreshold(threshold)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(root *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				home.Place.Threshold = threshold
				o := demoOptions(home, machine, duration)
				o.Only = args
				if err := demoLimits(cmd, &o); err != nil {
					return err
				}
				return runDemo(cmd, format, root, o)
			})
		}),
	}
	cmd.Flags().DurationVar(&duration, "duration", duration, "time of burst under load, all three arms together")
	thresholdFlag(cmd.Flags(), &threshold)
	return cmd
}

func checkDemo(capabilities []string, duration time.Duration) error {
	if duration < 3*time.Second || duration > demoMost {
		return usageError(fmt.Errorf("--duration %s: allowed: 3s..%s", duration, demoMost))
	}
	for _, name := range capabilities {
		if !slices.Contains(demo.Capabilities(), name) {
			return usageError(fmt.Errorf("capability %q: allowed: %s", name, strings.Join(demo.Capabilities(), ", ")))
		}
	}
	return nil
}

// demoLimits says what the demonstration must leave alone on this host: CPUs that another agent or a kubelet divides, and
// settings of an applied profile.
func demoLimits(cmd *cobra.Command, o *demo.Options) error {
	cfg, _, err := findState(cmd, manifest.DefaultConfigPath)
	if err != nil {
		return err
	}
	holder, held, err := journal.Holder(cfg.StateDir)
	if err != nil && !isMissing(err) {
		return fmt.Errorf("stateDir: %w", err)
	}
	if held {
		o.Managed = fmt.Sprintf("an agent runs on this host (process %d) and divides its CPUs", holder)
	}
	for _, name := range []string{"kubepods", "kubepods.slice"} {
		if g, err := o.Home.Place.Host.Group(name); err == nil {
			o.Managed = "a kubelet runs on this host and divides its CPUs"
			if err := g.Close(); err != nil {
				return fmt.Errorf("group %s: %w", name, err)
			}
		}
	}
	o.Profile = whyNoProfile(cfg.StateDir)
	return nil
}

// whyNoProfile says why no profile may be applied for a while, "" for no reason: a profile is on record.
func whyNoProfile(stateDir string) string {
	record, is, err := tuner.Load(filepath.Join(stateDir, tuner.Subdir))
	switch {
	case err != nil:
		return err.Error()
	case is:
		return fmt.Sprintf("the profile %s is applied (berth tune list)", record.Profile.Name)
	}
	return ""
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
		Arm:     demoArm,
	}
}

func runDemo(cmd *cobra.Command, format string, root *hostfs.Root, o demo.Options) error {
	o.Progress = progressTo(cmd.ErrOrStderr())
	var err error
	if o.Host, err = topology.Discover(root.FS()); err != nil {
		return fmt.Errorf("topology: %w", err)
	}
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
