package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"text/tabwriter"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/cluster/local"
)

// The load of the benchmark: the load of `berth bench burst`, with twice as many requests that are half as long, so
// that arms of half a minute have enough of them.
const (
	podBatch = 80
	podWork  = 600 * time.Microsecond
)

// podArms returns the arms with a pod, in the order of the table.
func podArms() []string {
	return []string{bench.Unlimited, bench.QuotaOnly, bench.Berth, bench.Unlimited2}
}

// benchmark measures the load of `berth bench burst` against a server in a pod.
type benchmark struct {
	*tour
	options bench.BurstOptions
	version string
	host    *cgroup.Host
	pods    []podOutcome
	peer    peer
}

// parseBench parses the flags of the benchmark, which are those of `berth bench burst`.
func parseBench(args []string, out io.Writer) (*benchmark, error) {
	b := &benchmark{}
	o := &b.options
	flags := flag.NewFlagSet("tour bench", flag.ContinueOnError)
	flags.SetOutput(out)
	limit := flags.Float64("limit", bench.DefaultLimit, "the server's CPU limit in CPUs")
	flags.BoolVar(&o.Quick, "quick", false, "three repetitions of six seconds an arm; cannot judge every goal")
	flags.IntVar(&o.Repetitions, "reps", 6, "repetitions")
	flags.BoolVar(&o.ByNoise, "reps-by-noise", false, "three repetitions, and as many more, up to 20, as the noise of the machine asks for")
	flags.DurationVar(&o.Duration, "duration", 27*time.Second, "load of one arm")
	flags.Float64Var(&o.Pattern.Rate, "rate", bench.DefaultRate, "batches of requests per second")
	flags.IntVar(&o.Pattern.Batch, "batch", podBatch, "requests of a batch, which arrive at once")
	flags.DurationVar(&o.Work, "work", podWork, "CPU time of one request")
	flags.Uint64Var(&o.Pattern.Seed, "seed", 1, "seed of the arrivals")
	flags.StringVar(&o.Out, "out", "", "directory for the raw samples and summaries")
	b.peer.register(flags)
	flags.StringVar(&b.version, "version", "dev", "what is measured, for the report")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if flags.NArg() > 0 {
		return nil, fmt.Errorf("bench: not a flag: %q", flags.Args())
	}
	if o.Quick {
		o.Repetitions, o.Duration = 3, 6*time.Second
	}
	if o.Repetitions < 1 || o.Duration <= 0 || *limit <= 0 {
		return nil, errors.New("bench: --reps, --duration and --limit: allowed: above 0")
	}
	counted := false
	flags.Visit(func(f *flag.Flag) { counted = counted || f.Name == "reps" })
	if counted && o.ByNoise {
		return nil, errors.New("bench: --reps: not allowed with --reps-by-noise")
	}
	if len(b.peer.Command) == 0 && len(b.peer.labels)+len(b.peer.annotations) > 0 {
		return nil, errors.New("bench: --peer-label and --peer-annotation: only allowed with --peer-command")
	}
	o.Limit, o.Arms, o.Peer = unit.CPUs(*limit), podArms(), b.peer.PeerOptions
	if _, err := o.Pattern.Arrivals(o.Duration); err != nil {
		return nil, err
	}
	return b, nil
}

// run measures all arms and prints the results.
func (b *benchmark) run(ctx context.Context) error {
	at, err := b.open(ctx, b.version)
	if err != nil {
		return err
	}
	defer at.root.Close()
	b.host = at.host
	o := b.options
	o.Machine, o.Progress, o.Run = at.machine, at.progress, b.arm
	report, err := bench.RunBurst(ctx, o)
	if err != nil {
		return err
	}
	report.Notes = append(report.Notes, b.notes()...)
	if err := errors.Join(bench.WriteTable(b.out, report), b.podTable()); err != nil {
		return err
	}
	return b.write()
}

// opened is this host, open for a benchmark. The caller closes root.
type opened struct {
	root     *hostfs.Root
	host     *cgroup.Host
	machine  bench.Machine
	progress func(string)
}

// open settles the tour and opens this host. version is what is measured.
func (t *tour) open(ctx context.Context, version string) (o opened, err error) {
	if err := t.settle(ctx); err != nil {
		return o, err
	}
	if o.root, err = hostfs.Open("/"); err != nil {
		return o, err
	}
	if o.host, err = cgroup.Open(o.root); err == nil {
		o.machine, err = bench.Describe(o.root, o.host, version)
	}
	if err != nil {
		o.root.Close()
		return o, err
	}
	begin := time.Now()
	o.progress = func(what string) { fmt.Fprintf(os.Stderr, "%4.0fs  %s\n", time.Since(begin).Seconds(), what) }
	return o, nil
}

// settle creates the namespace and fails if it contains pods.
func (t *tour) settle(ctx context.Context) error {
	if err := t.space(ctx); err != nil {
		return err
	}
	pods, err := t.mine(ctx)
	if err != nil {
		return err
	}
	if len(pods) > 0 {
		return fmt.Errorf("namespace %s has pods: another tour is under way", namespace)
	}
	return nil
}

// write writes the pods' figures next to the raw samples.
func (b *benchmark) write() error {
	if b.options.Out == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.pods, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.options.Out, "pods.json"), append(text, '\n'), 0o644)
}

// notes returns what a reader has to know about this run.
func (b *benchmark) notes() []string {
	notes := []string{fmt.Sprintf("the server is a pod on %s; ABOVE counts the throttled periods of the pod's group and those above it, WRITES those to the container's", local.NodeName)}
	low, all := 0, 0
	var use float64
	for _, p := range b.pods {
		if p.Arm != bench.Berth {
			continue
		}
		all++
		use += p.NodeUse
		if unit.CPUs(p.LowestQuota) < ceiling(b.options.Limit) {
			low++
		}
	}
	if low > 0 {
		notes = append(notes, fmt.Sprintf(
			"the machine was too busy for bursting in %d of %d arms with Berth: the quota was below its ceiling for a while "+
				"(mean use of the machine %.0f %%, sharePoolThresholdPercent %d)", low, all, 100*use/float64(all), bench.DefaultThreshold))
	}
	return notes
}

// podTable prints the container's and the pod's group of each arm, over all repetitions, including those that do not
// count.
func (b *benchmark) podTable() error {
	w := tabwriter.NewWriter(b.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(w, "\nGROUPS\tCONTAINER: THROTTLED\tMEAN CPU\tQUOTA\tPOD: THROTTLED\tMEAN CPU\tQUOTA\tUSE OF THE NODE")
	for _, arm := range append(b.options.Arms, bench.Peer) {
		var sum podOutcome
		n, low, high := 0.0, 0.0, 0.0
		for _, p := range b.pods {
			if p.Arm != arm {
				continue
			}
			if n == 0 {
				low = p.LowestQuota
			}
			n++
			low, high = min(low, p.LowestQuota), max(high, p.HighestQuota)
			sum.add(p)
		}
		if n == 0 {
			continue // no peer
		}
		fmt.Fprintf(w, "%s\t%d of %d\t%.3f\t%s\t%d of %d\t%.3f\t%s\t%.0f %%\n", arm,
			sum.ContainerThrottled, sum.ContainerPeriods, sum.ContainerCPUs/n, between(low, high),
			sum.PodThrottled, sum.PodPeriods, sum.PodCPUs/n, between(sum.PodQuota, sum.PodQuota), 100*sum.NodeUse/n)
	}
	return w.Flush()
}

// between formats the range of observed quotas, in CPUs.
func between(low, high float64) string {
	switch {
	case high == 0:
		return "none"
	case low == high:
		return fmt.Sprintf("%.2f", high)
	default:
		return fmt.Sprintf("%.2f to %.2f", low, high)
	}
}
