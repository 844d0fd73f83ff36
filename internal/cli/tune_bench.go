package cli

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/evidence"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/switchback"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/value/table"
)

// seconds is the metric of a comparison by time.
const seconds = "seconds"

// benchRecord is the file in stateDir/tune with the last comparison: its seed, then a line for each run.
const benchRecord = "bench"

// tuneBenchFlags are the flags of berth tune bench.
type tuneBenchFlags struct {
	config, metric, better string
	keep                   bool
	limit, pause           time.Duration
}

// compared is the result of berth tune bench. Its JSON is a stable contract.
type compared struct {
	Profile string           `json:"profile"`
	Metric  string           `json:"metric"`
	Verdict evidence.Verdict `json:"verdict"`
	// Ratio is with over without. Low and High are the interval, 0 while the pairs are too few to bound it.
	Ratio float64 `json:"ratio"`
	Low   float64 `json:"low"`
	High  float64 `json:"high"`
	Pairs int     `json:"pairs"`
	Seed  uint64  `json:"seed"`
	// Kept is true if the profile is applied and committed.
	Kept bool             `json:"kept"`
	Runs []switchback.Run `json:"runs"`
}

func newTuneBenchCommand(g *globals) *cobra.Command {
	var f tuneBenchFlags
	cmd := &cobra.Command{
		Use:   "bench PROFILE [--metric REGEX] [--better lower|higher] [--keep] -- COMMAND [ARGS...]",
		Short: "Run a command with and without a profile, and say whether it helps",
		Long: `Runs COMMAND in pairs, once with the profile and once without, in random order, until the
runs show whether the profile helps: for 60 pairs at most, or for the time of --for. At
most one in a hundred comparisons calls a profile without effect better, however the host
drifts.

The value is the time of a run, or the number that --metric finds in its output: the only
group of the expression, at the last match. The command discards a pair in which other
machines of the hypervisor took more than 1 % of the CPU time, and at least 20 ms.

VERDICT is better, worse, noDifference (any gain is below 5 %), or noisy (not known after
all pairs). --keep applies and commits the profile if it is better. Otherwise the host is
as before, also after Ctrl-C and if this process is killed.

Exit code 0 is any verdict, 1 a command that fails. 3 and 4 are those of berth tune apply,
before the first run.`,
		Example: `  berth tune bench throughput -- make -j8 -B
  berth tune bench low-latency --metric 'p99: ([0-9.]+) ms' -- ./load.sh
  berth tune bench ./db.yaml --metric 'tps = ([0-9.]+)' --better higher --keep -- pgbench -T 20 shop`,
		ValidArgsFunction: g.completeProfile,
		Args: func(cmd *cobra.Command, args []string) error {
			if at := cmd.ArgsLenAtDash(); at != 1 || len(args) < 2 {
				return usageError(errors.New("allowed: berth tune bench PROFILE [FLAGS] -- COMMAND [ARGS...]"))
			}
			return nil
		},
		RunE: formatted(g, func(cmd *cobra.Command, args []string, format string) error {
			options, err := f.read(cmd, args[1:])
			if err != nil {
				return err
			}
			job, closeJob, err := g.tuneJob(cmd, f.config)
			if err != nil {
				return err
			}
			defer closeJob()
			found, err := job.compare(args[0], options, f.keep)
			if err != nil {
				return err
			}
			return show(cmd.OutOrStdout(), format, found, func(w io.Writer) error { return printCompared(w, found) })
		}),
	}
	configFlag(cmd, &f.config)
	cmd.Flags().StringVar(&f.metric, "metric", "", "`REGEX` that finds the value in the output; without it the value is the time")
	cmd.Flags().StringVar(&f.better, "better", "lower", "which values of --metric are better, `lower|higher`")
	cmd.Flags().BoolVar(&f.keep, "keep", false, "apply and commit the profile if it is better")
	cmd.Flags().DurationVar(&f.limit, "for", 2*time.Hour, "the longest time for all runs")
	cmd.Flags().DurationVar(&f.pause, "pause", time.Second, "how long to wait before each run, so that the switch itself is not measured")
	_ = cmd.RegisterFlagCompletionFunc("better", // fails only for an unknown flag
		cobra.FixedCompletions([]string{"lower", "higher"}, cobra.ShellCompDirectiveNoFileComp))
	return cmd
}

// read checks the flags and finds the command.
func (f *tuneBenchFlags) read(cmd *cobra.Command, command []string) (switchback.Options, error) {
	o := switchback.Options{
		HigherIsBetter: f.better == "higher", Seed: rand.Uint64(), Pause: f.pause, For: f.limit,
		Clock: kernel.Monotonic, Progress: progressTo(cmd.ErrOrStderr()),
	}
	const mostPause = 10 * time.Minute
	switch {
	case f.better != "lower" && f.better != "higher":
		return o, usageError(fmt.Errorf("--better %q: allowed: lower, higher", f.better))
	case f.better == "higher" && f.metric == "":
		return o, usageError(errors.New("--better higher: allowed: only with --metric; of a time less is better"))
	case f.limit < leastConfirm || f.limit > mostConfirm:
		return o, usageError(fmt.Errorf("--for %v: allowed: %v to %v", f.limit, leastConfirm, mostConfirm))
	case f.pause < 0 || f.pause > mostPause:
		return o, usageError(fmt.Errorf("--pause %v: allowed: 0s to %v", f.pause, mostPause))
	}
	if f.metric != "" {
		metric, err := regexp.Compile(f.metric)
		if err == nil && metric.NumSubexp() > 1 {
			err = fmt.Errorf("%d groups", metric.NumSubexp())
		}
		if err != nil {
			return o, usageError(fmt.Errorf("--metric %q: %w: allowed: a regular expression with at most one group", f.metric, err))
		}
		o.Metric = metric
	}
	file, err := process.Find(command[0])
	if err != nil {
		return o, usageError(err)
	}
	o.Command = append([]string{file}, command[1:]...)
	return o, nil
}

// compare measures a profile. If keep is set, a better profile stays.
func (j *tuneJob) compare(name string, o switchback.Options, keep bool) (found compared, err error) {
	whole, _, err := j.g.profiles().open(name)
	if err != nil {
		return found, err
	}
	o.Host = j.root
	now, is, err := tuner.Load(j.host.Dir)
	if err := errors.Join(err, j.unapplied(now, is)); err != nil {
		return found, err
	}
	order, err := j.benchable(whole)
	if err != nil {
		return found, err
	}
	j.host.Keep = once(j.host.Keep)
	err = j.with(func(u *tuner.Tuner) error {
		if err := j.unapplied(u.Applied()); err != nil {
			return err
		}
		record, err := j.recordBench(order.Profile.Name, o)
		if err != nil {
			return err
		}
		defer record.Close()
		o.Record = record
		result, err := switchback.Compare(j.cmd.Context(), switched{u, order, kernel.Monotonic() + o.For + mostEnd}, o)
		if errors.Is(err, context.Canceled) { // Run only says "interrupted"
			printNote(j.cmd, "the host is as before; the comparison has no verdict")
		}
		if err != nil {
			return fmt.Errorf("bench %s: %w", name, err)
		}
		found = comparedOf(order.Profile.Name, o, result)
		if !keep || result.Verdict != evidence.Better {
			return nil
		}
		order.Held, order.Confirm = false, 0
		done, err := u.Apply(order)
		found.Kept = err == nil
		return applyError(err, done.Restored)
	})
	return found, err
}

// once starts one keeper for all runs, so that both kinds of runs have it. The keeper waits for the end of this process
// without reading the clock. A keeper started for each run with the profile would burden only those runs.
func once(keep func(tuner.Applied) error) func(tuner.Applied) error {
	kept := false
	return func(a tuner.Applied) error {
		if kept {
			return nil
		}
		err := keep(a)
		kept = err == nil
		return err
	}
}

// unapplied refuses a host that already has a profile.
func (j *tuneJob) unapplied(now tuner.Applied, is bool) error {
	if is && (now.Stands(j.host.Boot) || now.Outlives()) {
		return fmt.Errorf("%w: %s: roll it back first (berth tune rollback)", tuner.ErrApplied, now.Profile.Name)
	}
	return nil
}

// benchable returns the order for the profile, if it can be compared with the host.
func (j *tuneJob) benchable(whole profile.Document) (tuner.Order, error) {
	_, parts, err := j.divide(whole)
	if err != nil {
		return tuner.Order{}, err
	}
	if len(parts.Boot) > 0 {
		return tuner.Order{}, fmt.Errorf("%w: profile %s has boot arguments, which need a boot between two runs", ErrUnsupported, whole.Name)
	}
	for _, s := range parts.Left {
		printNote(j.cmd, "%s is left as it is: %s", s.Name(), s.Why)
	}
	if !slices.ContainsFunc(parts.Write, func(s tune.Setting) bool { return !s.Stands() }) {
		return tuner.Order{}, fmt.Errorf("profile %s changes nothing on this host: there is nothing to compare", whole.Name)
	}
	// The order is undone once this process no longer holds it, regardless of the deadline.
	return tuner.Order{Profile: whole.Profile, Settings: parts.Write, Confirm: leastConfirm, Held: true}, nil
}

// recordBench creates the record of a comparison, with the seed on disk.
func (j *tuneJob) recordBench(name string, o switchback.Options) (*os.File, error) {
	file, err := os.OpenFile(filepath.Join(j.host.Dir, benchRecord), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, fmt.Errorf("record the comparison: %w", err)
	}
	err = json.NewEncoder(file).Encode(map[string]any{"profile": name, "metric": metricName(o), "seed": o.Seed, "since": time.Now()})
	if err == nil {
		err = file.Sync()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("record the comparison: %w", err), file.Close())
	}
	return file, nil
}

// mostEnd is how long after its time limit a comparison may take to end. After that the keeper raises the priority of
// this process, and continues it if it is stopped.
const mostEnd = time.Minute

// switched switches a profile on and off, until a moment of the monotonic clock.
type switched struct {
	u     *tuner.Tuner
	order tuner.Order
	until time.Duration
}

// On implements switchback.Change.
func (s switched) On() error {
	s.order.Confirm = max(s.until-kernel.Monotonic(), leastConfirm)
	done, err := s.u.Apply(s.order)
	return applyError(err, done.Restored)
}

// Off implements switchback.Change.
func (s switched) Off() error { return outcome(s.u.Undo()) }

func metricName(o switchback.Options) string {
	if o.Metric == nil {
		return seconds
	}
	return o.Metric.String()
}

func comparedOf(name string, o switchback.Options, r switchback.Result) compared {
	return compared{
		Profile: name, Metric: metricName(o), Verdict: r.Verdict, Ratio: r.Ratio, Low: r.Low, High: r.High,
		Pairs: r.Pairs, Seed: o.Seed, Runs: r.Runs,
	}
}

func printCompared(w io.Writer, c compared) error {
	rows := [][]string{{"MEDIAN OF A RUN", "WITHOUT", "WITH"}}
	for _, column := range []struct {
		name string
		of   func(switchback.Run) float64
	}{
		{c.Metric, func(r switchback.Run) float64 { return r.Value }},
		{seconds, func(r switchback.Run) float64 { return r.Seconds }},
		{"CPU seconds", func(r switchback.Run) float64 { return r.CPUSeconds }},
		{"context switches", func(r switchback.Run) float64 { return float64(r.Switches) }},
		{"remote pages, %", func(r switchback.Run) float64 { return 100 * r.RemoteShare }},
	} {
		row := []string{column.name, medianOf(c.Runs, false, column.of), medianOf(c.Runs, true, column.of)}
		if !slices.Equal(row, rows[len(rows)-1]) { // the metric is the time
			rows = append(rows, row)
		}
	}
	if err := table.Write(w, rows); err != nil {
		return err
	}
	interval := "not bounded yet"
	if c.Low > 0 {
		interval = fmt.Sprintf("%.3f to %.3f", c.Low, c.High)
	}
	end := "the host is as before"
	if c.Kept {
		end = "the profile is applied and committed: it stays until the next boot, or berth tune rollback"
	}
	return printLine(w, fmt.Sprintf("\n%s: with profile %s / without it: %.3f, interval %s, after %d pairs, %d void; %s\n",
		c.Verdict, c.Profile, c.Ratio, interval, c.Pairs, len(c.Runs)/2-c.Pairs, end))
}

// medianOf returns the median of the valid runs of one kind.
func medianOf(runs []switchback.Run, with bool, of func(switchback.Run) float64) string {
	var values []float64
	for _, r := range runs {
		if r.With == with && !r.Void {
			values = append(values, of(r))
		}
	}
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	n := len(values)
	const whole = 1000
	median := (values[(n-1)/2] + values[n/2]) / 2
	if median >= whole {
		median = math.Round(median)
		return strconv.FormatFloat(median, 'f', 0, 64)
	}
	return strconv.FormatFloat(median, 'g', 4, 64)
}
