package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"golang.org/x/term"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/table"
	"github.com/berth-project/berth/internal/value/unit"
)

func newBenchCommand(g *globals) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "bench",
		Short: "Measure what Berth does on this host, side by side with the alternatives",
	}
	var threshold int
	thresholdFlag(cmd.PersistentFlags(), &threshold)
	cmd.AddCommand(newBenchBurst(g, &threshold), newBenchAgent(g, &threshold), newBenchPin(g, &threshold), newBenchPlace(g), newBenchSchedule(g), newBenchInterference(g), newBenchLocality(g), newBenchSeeds(g, &threshold))
	return parent(cmd)
}

// thresholdFlag adds --share-pool-threshold, which bench and demo share.
func thresholdFlag(flags *pflag.FlagSet, threshold *int) {
	flags.IntVar(threshold, "share-pool-threshold", bench.DefaultThreshold,
		"the agent's sharePoolThresholdPercent; 100 also raises quotas on a busy machine")
}

// checkThreshold refuses values that the agent would refuse, before anything starts.
func checkThreshold(threshold int) error {
	if threshold < 0 || threshold > 100 {
		return usageError(fmt.Errorf("--share-pool-threshold %d: allowed: 0..100", threshold))
	}
	return nil
}

// defaultSettle is how long another agent has to find the groups of a node.
const defaultSettle = 10 * time.Second

// benchBurstFlags are the flags of bench burst. Zero means not given if the default depends on --quick.
type benchBurstFlags struct {
	options   bench.BurstOptions
	limit     float64
	noAbusers bool
	abusers   []string
	abuse     time.Duration
	saved     bool
	peer      string
}

func newBenchBurst(g *globals, threshold *int) *cobra.Command {
	f := &benchBurstFlags{}
	cmd := &cobra.Command{
		Use:   "burst",
		Short: "Request latency and throttling with and without Berth",
		Long: `Runs a limited request server under the same bursty arrivals without a limit,
with the limit only, with the kernel's burst, with an emulation of Koordinator's
quota loop, and with Berth's agent; then abusers that take all they get.

The full run takes about an hour on an idle machine; --quick takes three minutes
and cannot judge every goal.

With --cores-saved it searches instead for the smallest limit with which the p99
is at most 1.05 of that without a limit, with the limit only and with Berth, on
the same arrivals: about ten arms a repetition.`,
		Example: `  berth bench burst --quick
  berth bench burst --cores-saved --reps 3            # which limits would do
  berth bench burst --peer-command '/usr/local/bin/agent --group {cgroup}'   # beside another agent
  berth bench burst --neighbours 8 --out DIR          # among others that burst as well
  berth bench burst --duration 10m --reps 1 --no-abusers --arms 'unlimited,quota only,berth'   # one long run`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if err := errors.Join(checkThreshold(*threshold), f.checkGiven(cmd)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(_ *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				home.Place.Threshold = *threshold
				o, err := f.resolve(home.Place, machine)
				if err != nil {
					return err
				}
				o.Progress = progressTo(cmd.ErrOrStderr())
				if f.saved {
					return measure(cmd, format, o, bench.RunCoresSaved, bench.WriteSavedTable)
				}
				return measure(cmd, format, o, bench.RunBurst, bench.WriteTable)
			})
		}),
	}
	f.register(cmd)
	return cmd
}

func (f *benchBurstFlags) register(cmd *cobra.Command) {
	o, flags := &f.options, cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "three minutes instead of an hour")
	flags.StringVar(&o.Out, "out", "", "directory for the raw samples and summary.json")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 10, quick 3)")
	flags.BoolVar(&o.ByNoise, "reps-by-noise", false, "three repetitions, and as many more, up to 20, as the noise of the machine asks for")
	flags.DurationVar(&o.Duration, "duration", 0, "load of one arm (default 60s, quick 6s)")
	flags.Float64Var(&f.limit, "limit", bench.DefaultLimit, "the server's CPU limit in CPUs")
	flags.Float64Var(&o.Pattern.Rate, "rate", bench.DefaultRate, "batches of requests per second")
	flags.IntVar(&o.Pattern.Batch, "batch", bench.DefaultBatch, "requests of a batch, which arrive at once")
	flags.BoolVar(&o.Pattern.Regular, "regular", false, "space the batches evenly instead of at random")
	flags.DurationVar(&o.Work, "work", bench.DefaultWork, "CPU time of one request")
	flags.Uint64Var(&o.Pattern.Seed, "seed", 1, "seed of the arrivals")
	flags.DurationVar(&f.abuse, "abuser-duration", 0, "how long each abuser is measured (default 60s, quick 5s)")
	flags.IntVar(&o.Neighbours, "neighbours", 0, "servers beside the measured one, each with a quarter of its limit and load, treated alike")
	flags.StringSliceVar(&o.Arms, "arms", bench.ArmNames(), "the arms to run ("+strings.Join(bench.RequestedArmNames(), " and ")+" run only if named); each is compared with unlimited")
	flags.BoolVar(&f.noAbusers, "no-abusers", false, "leave the abusers out")
	flags.StringSliceVar(&f.abusers, "abusers", bench.AbuserNames(), "the abusers to run, of "+
		strings.Join(bench.AllAbuserNames(), ", "))
	flags.StringVar(&f.peer, "peer-command", "", "another agent to run as an arm: a program and arguments between blanks, without a shell; "+
		bench.PeerGroup+" stands for the server's group")
	flags.DurationVar(&o.Peer.Settle, "peer-settle", defaultSettle, "how long the peer runs before it is measured")
	flags.BoolVar(&f.saved, "cores-saved", false, "search for the smallest sufficient limits, instead of comparing arms at one limit")
}

// checkGiven refuses an explicit 0, and arms that do not exist.
func (f *benchBurstFlags) checkGiven(cmd *cobra.Command) error {
	return errors.Join(checkRuns(cmd, f.options.Repetitions, f.options.Duration), checkArms(f.options.Arms, bench.AllArmNames(), bench.Unlimited),
		checkNames("abusers", f.abusers, bench.AllAbuserNames()), f.checkNoAbusers(cmd), f.checkSaved(cmd), f.checkByNoise(cmd))
}

// checkNoAbusers refuses names of abusers with --no-abusers.
func (f *benchBurstFlags) checkNoAbusers(cmd *cobra.Command) error {
	if !f.noAbusers {
		return nil
	}
	return refuseFlags(cmd, "not allowed with --no-abusers", "abusers")
}

// checkByNoise refuses --reps-by-noise with a number of repetitions, and without the arms that show the noise.
func (f *benchBurstFlags) checkByNoise(cmd *cobra.Command) error {
	if !f.options.ByNoise {
		return nil
	}
	err := refuseFlags(cmd, "not allowed with --reps-by-noise", "reps", "cores-saved")
	if !slices.Contains(f.options.Arms, bench.Unlimited2) {
		err = errors.Join(err, usageError(fmt.Errorf("--reps-by-noise: the noise needs the arm %s", bench.Unlimited2)))
	}
	return err
}

// checkSaved refuses flags that have no effect with --cores-saved.
func (f *benchBurstFlags) checkSaved(cmd *cobra.Command) error {
	if !f.saved {
		return nil
	}
	return refuseFlags(cmd, "not allowed with --cores-saved", "limit", "arms", "no-abusers", "abusers", "abuser-duration", "peer-command", "peer-settle")
}

// checkRuns checks --reps and --duration.
func checkRuns(cmd *cobra.Command, reps int, duration time.Duration) error {
	var errs []error
	if cmd.Flags().Changed("reps") && (reps < 1 || reps > 100) {
		errs = append(errs, usageError(fmt.Errorf("--reps %d: allowed: 1..100", reps)))
	}
	if cmd.Flags().Changed("duration") && duration <= 0 {
		errs = append(errs, usageError(fmt.Errorf("--duration %s: allowed: above 0", duration)))
	}
	return errors.Join(errs...)
}

func (f *benchBurstFlags) resolve(place bench.Place, machine bench.Machine) (bench.BurstOptions, error) {
	o := f.options
	o.Place, o.Machine, o.Limit = place, machine, unit.CPUs(f.limit)
	if f.limit <= 0 || f.limit > float64(machine.CPUs) {
		return o, usageError(fmt.Errorf("--limit %g: allowed: above 0, at most %d", f.limit, machine.CPUs))
	}
	if o.Work < 0 || o.Work > load.MaxWork {
		return o, usageError(fmt.Errorf("--work %s: allowed: 0..%s", o.Work, load.MaxWork))
	}
	if o.Peer.Settle < 0 {
		return o, usageError(fmt.Errorf("--peer-settle %s: allowed: 0 or more", o.Peer.Settle))
	}
	o.Peer.Command = strings.Fields(f.peer)
	if o.Neighbours < 0 || o.Neighbours > 64 {
		return o, usageError(fmt.Errorf("--neighbours %d: allowed: 0..64", o.Neighbours))
	}
	credit := f.fill(&o)
	if _, err := o.Pattern.Arrivals(o.Duration); err != nil {
		return o, usageError(err)
	}
	if !f.noAbusers {
		o.Abuse = bench.AbuseOptions{
			Limit: o.Limit, Threads: max(2, machine.CPUs), CreditSeconds: credit, Measure: f.abuse,
			Abusers: f.abusers,
		}
	}
	return o, nil
}

// checkArms refuses unknown arms, and a list without the arm of the comparison.
func checkArms(arms, allowed []string, reference string) error {
	if err := checkNames("arms", arms, allowed); err != nil {
		return err
	}
	if !slices.Contains(arms, reference) {
		return usageError(fmt.Errorf("--arms %s: %s is missing, which all are compared with", strings.Join(arms, ","), reference))
	}
	return nil
}

// checkNames refuses a flag's names that are not allowed.
func checkNames(flag string, names, allowed []string) error {
	for _, name := range names {
		if !slices.Contains(allowed, name) {
			return usageError(fmt.Errorf("--%s %q: allowed: %s", flag, name, strings.Join(allowed, ", ")))
		}
	}
	return nil
}

// fill sets flags that were not given, depending on --quick. It returns the seconds of the abusers' credit.
func (f *benchBurstFlags) fill(o *bench.BurstOptions) (credit int) {
	reps, duration, abuse, credit := 10, time.Minute, time.Minute, 10
	if o.Quick {
		reps, duration, abuse, credit = 3, 6*time.Second, 5*time.Second, 4
	}
	if f.abuse <= 0 {
		f.abuse = abuse
	}
	o.Repetitions, o.Duration = cmp.Or(o.Repetitions, reps), cmp.Or(o.Duration, duration)
	return credit
}

func newBenchAgent(g *globals, threshold *int) *cobra.Command {
	o := bench.AgentOptions{}
	cmd := &cobra.Command{
		Use:   "agent",
		Short: "What the agent itself costs: memory, CPU per group, writes",
		Args:  noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			if err := errors.Join(checkThreshold(*threshold), checkGroups(o.Groups)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(_ *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				home.Place.Threshold = *threshold
				o.Place, o.Machine, o.Progress = home.Place, machine, progressTo(cmd.ErrOrStderr())
				return measure(cmd, format, o, bench.RunAgentCost, bench.WriteAgentTable)
			})
		}),
	}
	cmd.Flags().IntSliceVar(&o.Groups, "groups", []int{10, 100, 250}, "numbers of groups, ascending")
	cmd.Flags().DurationVar(&o.Measure, "duration", 20*time.Second, "how long each number is measured")
	return cmd
}

func checkGroups(groups []int) error {
	last := 0
	for _, n := range groups {
		if n <= last || n > 1000 {
			return usageError(fmt.Errorf("--groups %v: allowed: ascending numbers 1..1000", groups))
		}
		last = n
	}
	if last == 0 {
		return usageError(fmt.Errorf("--groups: allowed: at least one number 1..1000"))
	}
	return nil
}

// placed is the function that withPlace calls.
type placed func(*hostfs.Root, *demo.Home, bench.Machine) error

// withPlace calls f with a home for groups and the facts of the machine, and closes the home afterwards.
func withPlace(cmd *cobra.Command, g *globals, f placed) (err error) {
	if g.Root != "/" {
		return usageError(fmt.Errorf("--root %s: %s changes the live host; allowed: /", g.Root, cmd.CommandPath()))
	}
	root, err := g.openRoot()
	if err != nil {
		return err
	}
	defer root.Close()
	home, err := demo.OpenHome(cmd.Context(), root)
	if err != nil {
		return unsupported(err)
	}
	defer func() {
		if closeErr := home.Close(); err == nil && closeErr != nil {
			err = fmt.Errorf("clean up: %w", closeErr)
		}
	}()
	machine, err := bench.Describe(root, home.Place.Host, cmd.Root().Version)
	if err != nil {
		return fmt.Errorf("%s: %w", cmd.CommandPath(), err)
	}
	return f(root, home, machine)
}

// measure runs a measurement of a command bench, and prints its report. A report that comes with an error is printed
// too.
func measure[O, R any](cmd *cobra.Command, format string, o O, run func(context.Context, O) (*R, error), table func(io.Writer, *R) error) error {
	report, err := run(cmd.Context(), o)
	if err != nil {
		err = fmt.Errorf("bench %s: %w", cmd.Name(), err)
	}
	if report == nil {
		return err
	}
	return errors.Join(err, show(cmd.OutOrStdout(), format, report, func(w io.Writer) error { return table(w, report) }))
}

// unsupported marks the error of a missing privilege or kernel feature.
func unsupported(err error) error {
	if isAny(err, []error{demo.ErrUnsupported}) {
		return fmt.Errorf("%w: %w", ErrUnsupported, err)
	}
	return err
}

// progressTo returns a function that writes lines of progress to w if w is a terminal, and nothing otherwise.
func progressTo(w io.Writer) func(string) {
	file, ok := w.(interface{ Fd() uintptr })
	if !ok || !term.IsTerminal(int(file.Fd())) {
		return func(string) {}
	}
	begin := time.Now()
	return func(what string) {
		what = table.Clean(strings.TrimSpace(what))
		_, _ = fmt.Fprintf(w, "%4.0fs  %s\n", time.Since(begin).Seconds(), what)
	}
}
