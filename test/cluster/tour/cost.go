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
	"runtime"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

const (
	// goalRest is the agent's CPU time at rest, in ms a second.
	goalRest = 1.0
	// hertz is USER_HZ, the ticks a second in files of /proc.
	hertz = 100
)

// costBench measures what the agent of the cluster costs at rest and with raised groups.
type costBench struct {
	*tour
	pods, reps    int
	rest, settles time.Duration // measured time; time before it with pods. The rest settles for a third of that.
	trace         time.Duration
	version, out  string
	report        costReport
}

// phase is what the agent used in one phase of a round.
type phase struct {
	// AgentMillis is CPU time in ms a second, Switches are those of its threads a second.
	AgentMillis float64 `json:"agentMillisPerSecond"`
	Switches    float64 `json:"switchesPerSecond"`
	RSSMiB      float64 `json:"peakRSSMiB"`
	// Steal and Others are shares of the machine: time that the hypervisor took, and what ran outside the cluster.
	Steal  float64 `json:"stealShare"`
	Others float64 `json:"othersShare"`
	Load   string  `json:"load"`
	// Threads are those of the agent after the phase, if asked for.
	Threads []threadCost `json:"threads,omitempty"`
}

// costRound is one round: the agent at rest, then with raised groups.
type costRound struct {
	Rest phase `json:"rest"`
	With phase `json:"with"`
}

// costReport is what a run has found.
type costReport struct {
	Machine bench.Machine `json:"machine"`
	Groups  int           `json:"groups"`
	Quick   bool          `json:"quick"`
	Rounds  []costRound   `json:"rounds"`
	Goals   []bench.Goal  `json:"goals"`
}

// parseCost parses the flags of the benchmark.
func parseCost(args []string, out io.Writer) (*costBench, error) {
	b := &costBench{}
	flags := flag.NewFlagSet("tour cost", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&b.report.Quick, "quick", false, "one round with phases of 20 seconds, 30 seconds after the groups are raised; cannot judge CPU time")
	flags.IntVar(&b.reps, "reps", 3, "rounds")
	flags.IntVar(&b.pods, "pods", 50, "pods of four containers, which are five raised groups each")
	flags.DurationVar(&b.rest, "rest", 2*time.Minute, "measured time of each phase")
	flags.DurationVar(&b.settles, "settle", 3*time.Minute, "how long the raised groups exist before they are measured; a third of it before the rest")
	flags.DurationVar(&b.trace, "trace", 0, "after each phase, look at each thread of the agent for this long")
	flags.StringVar(&b.out, "out", "", "directory for the report as JSON")
	flags.StringVar(&b.version, "version", "dev", "what is measured, for the report")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	if b.report.Quick {
		b.reps, b.rest, b.settles = 1, 20*time.Second, 30*time.Second
	}
	switch {
	case flags.NArg() > 0:
		return nil, fmt.Errorf("cost: not a flag: %q", flags.Args())
	case b.reps < 1 || b.rest <= 0:
		return nil, errors.New("cost: --reps and --rest: allowed: above 0")
	case b.settles < 0 || b.trace < 0:
		return nil, errors.New("cost: --settle and --trace: allowed: 0 and above")
	case b.pods < 1 || b.pods > 100:
		return nil, errors.New("cost: --pods: allowed: 1 to 100, because a node has at most 110")
	}
	b.report.Groups = b.pods * (costContainers + 1)
	return b, nil
}

// run measures all rounds and prints the report.
func (b *costBench) run(ctx context.Context) error {
	at, err := b.open(ctx, b.version)
	if err != nil {
		return err
	}
	defer at.root.Close()
	b.report.Machine = at.machine
	err = b.rounds(ctx, at.progress)
	if len(b.report.Rounds) == 0 {
		return err
	}
	b.report.Goals = b.report.judge()
	return errors.Join(err, b.report.print(b.tour.out), b.write())
}

// rounds measures all rounds. With an error the report has those before it.
func (b *costBench) rounds(ctx context.Context, progress func(string)) error {
	for i := range b.reps {
		progress(fmt.Sprintf("round %d of %d", i+1, b.reps))
		round, err := b.round(ctx)
		if err != nil {
			return fmt.Errorf("round %d: %w", i+1, err)
		}
		b.report.Rounds = append(b.report.Rounds, round)
	}
	return nil
}

// round measures the agent at rest, and then with the pods.
func (b *costBench) round(ctx context.Context) (r costRound, err error) {
	if err := load.Pause(ctx, b.settles/3); err != nil {
		return r, err
	}
	if r.Rest, err = b.measured(ctx); err != nil {
		return r, fmt.Errorf("at rest: %w", err)
	}
	names, err := b.crowd(ctx)
	defer func() { err = errors.Join(err, b.gone(names...)) }() //nolint:contextcheck // also after ctx ended
	if err != nil {
		return r, err
	}
	if err := load.Pause(ctx, b.settles); err != nil {
		return r, err
	}
	if r.With, err = b.measured(ctx); err == nil {
		_, err = b.raised(ctx) // a group whose quota fell meanwhile is no raised group
	}
	if err != nil {
		return r, fmt.Errorf("with %d groups: %w", b.report.Groups, err)
	}
	return r, nil
}

// reading is what the counters say at one moment.
type reading struct {
	at       time.Time
	agent    time.Duration
	switches int64
	rss      float64
	// cluster is the CPU time of the whole cluster; busy and steal are those of the machine, in seconds.
	cluster     time.Duration
	busy, steal float64
}

// since returns what was used between two readings of a machine of n CPUs.
func (r reading) since(before reading, n int) phase {
	seconds := r.at.Sub(before.at).Seconds()
	machine := seconds * float64(n)
	return phase{
		AgentMillis: 1000 * (r.agent - before.agent).Seconds() / seconds,
		Switches:    float64(r.switches-before.switches) / seconds,
		RSSMiB:      r.rss,
		Steal:       (r.steal - before.steal) / machine,
		Others:      max(0, r.busy-before.busy-(r.cluster-before.cluster).Seconds()) / machine,
	}
}

// measured measures one phase, and then looks at the threads if asked for.
func (b *costBench) measured(ctx context.Context) (phase, error) {
	pids, err := b.agentProcesses(ctx)
	if err != nil {
		return phase{}, err
	}
	before, err := read(pids)
	if err != nil {
		return phase{}, err
	}
	if err := load.Pause(ctx, b.rest); err != nil {
		return phase{}, err
	}
	after, err := read(pids)
	if err != nil {
		return phase{}, err
	}
	p := after.since(before, runtime.NumCPU())
	text, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return phase{}, err
	}
	p.Load, _, _ = strings.Cut(string(text), " ")
	if b.trace > 0 {
		p.Threads, err = b.traced(ctx, pids)
	}
	return p, err
}

// read reads the counters of the agent's processes, of the cluster and of the machine.
func read(pids []int) (r reading, err error) {
	for _, pid := range pids {
		cpu, cpuErr := bench.ProcessCPU(pid)
		switches, switchErr := bench.Switches(pid)
		rss, rssErr := bench.PeakRSS(pid)
		if err := errors.Join(cpuErr, switchErr, rssErr); err != nil {
			return r, fmt.Errorf("agent, which must not restart: %w", err)
		}
		r.agent, r.switches, r.rss = r.agent+cpu, r.switches+switches, r.rss+rss
	}
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return r, err
	}
	if r.busy, r.steal, err = machineTime(string(text)); err != nil {
		return r, err
	}
	r.at = time.Now()
	r.cluster, err = clusterTime("/proc")
	return r, err
}

// machineTime returns the seconds that the CPUs of a machine worked, and those that its hypervisor took.
func machineTime(stat string) (busy, steal float64, err error) {
	var user, nice, system, idle, wait, hard, soft, stolen float64
	if _, err := fmt.Sscanf(stat, "cpu %g %g %g %g %g %g %g %g", &user, &nice, &system, &idle, &wait, &hard, &soft, &stolen); err != nil {
		return 0, 0, fmt.Errorf("/proc/stat: %w", err)
	}
	return (user + nice + system + hard + soft) / hertz, stolen / hertz, nil
}

// write writes the report.
func (b *costBench) write() error {
	if b.out == "" {
		return nil
	}
	text, err := json.MarshalIndent(b.report, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(b.out, 0o755); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(b.out, "cost.json"), append(text, '\n'), 0o644)
}
