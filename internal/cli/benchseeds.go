package cli

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/intent/manifest"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/seeds"
)

func newBenchSeeds(g *globals, threshold *int) *cobra.Command {
	var o seeds.Options
	cmd := &cobra.Command{
		Use:   "seeds [NAME]...",
		Short: "The experiments of the documents that Berth grew from, with the arms that they leave out",
		Long: `Repeats the experiments of five published documents on this machine and shows the
measured figures beside the printed ones, with intervals:

  nginx    requests to nginx on any CPUs, pinned, and on CPUs far from each other
  cal-pi   digits of Pi on 3,000 threads: pinned, with static-burst, with the limit only
  apache   a server that compresses files under a limit: limit, burst, no limit
  profiles a server beside hogs: no profile, the document's settings, low-latency
  online   a server beside hogs, as berth bench interference
  redis    Redis on local, remote, mixed and moved pages, as berth bench locality --redis

Each experiment repeats its first arm as a control of the machine's own noise. What this
machine lacks (CPUs, a second NUMA node, a program) is said instead of a figure. The
programs are those of Debian's packages nginx, wrk, apache2-bin, redis-server and
redis-tools; the command installs nothing. With --out it writes the raw data,
summary.json, a table (seeds.md) and a chart (seeds.svg).

profiles applies each profile for its arm only, and undoes it after the arm, an error or
Ctrl-C. If the command is killed, the profile's deadline undoes it, or the next berth
bench; the command prints how to undo it at once. It applies no profile where one is
applied already (berth tune list). Its load is Berth's own: the document names none.

--reps and --duration set the length of a run. The exit code is 3 if this machine can
have none of the experiments.`,
		Example: `  berth bench seeds --out DIR
  berth bench seeds apache cal-pi --quick`,
		ValidArgs: seeds.Names(),
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			if err := errors.Join(checkSeeds(args), checkRuns(cmd, o.Repetitions, o.Duration), checkThreshold(*threshold)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(root *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				run := o
				run.Place, run.Machine, run.Root, run.Progress, run.Names = home.Place, machine, root, progressTo(cmd.ErrOrStderr()), args
				run.Place.Threshold = *threshold
				run.Note = func(text string) { printNote(cmd, "%s", text) }
				run.Profile = profileHere(cmd)
				run.Fill()
				return measureSeeds(cmd, format, run)
			})
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "three repetitions of 5 s; cannot show p99 of apache")
	flags.StringVar(&o.Out, "out", "", "directory for the raw data, summary.json, seeds.md and seeds.svg")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 5, quick 3)")
	flags.DurationVar(&o.Duration, "duration", 0, "load of one arm (default 15s, quick 5s)")
	return cmd
}

// profileHere says why no profile may be applied on this host, "" for no reason.
func profileHere(cmd *cobra.Command) string {
	cfg, _, err := findState(cmd, manifest.DefaultConfigPath)
	if err != nil {
		return err.Error()
	}
	return whyNoProfile(cfg.StateDir)
}

// checkSeeds refuses names of no experiment.
func checkSeeds(names []string) error {
	for _, name := range names {
		if !slices.Contains(seeds.Names(), name) {
			return usageError(fmt.Errorf("experiment %q: allowed: %s", name, strings.Join(seeds.Names(), ", ")))
		}
	}
	return nil
}

// measureSeeds also prints the report of a run in which experiments failed.
func measureSeeds(cmd *cobra.Command, format string, o seeds.Options) error {
	report, err := seeds.Run(cmd.Context(), o)
	if report != nil {
		err = errors.Join(err, show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return seeds.WriteTable(w, report) }))
	}
	if err != nil {
		return fmt.Errorf("bench seeds: %w", err)
	}
	return nil
}
