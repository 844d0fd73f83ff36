package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/seeds"
	"github.com/berth-project/berth/test/cluster/local"
)

// seedBench measures the documents' experiments with pods of the cluster, for the report of `berth bench seeds`. The
// agent of the cluster does all that Berth does in an arm: this program only writes annotations and ConfigMaps.
type seedBench struct {
	*tour
	options seeds.Options
	version string
	host    *cgroup.Host
	// node is the name of the node of all pods.
	node string
	// cpus is the number of CPUs of the node, limit the CPU limit of what is measured, numa the number of NUMA nodes.
	cpus, limit, numa int
}

// parseSeeds parses the flags, which are those of `berth bench seeds`, and the names of experiments after them.
func parseSeeds(args []string, out io.Writer) (*seedBench, error) {
	b := &seedBench{node: local.NodeName}
	o := &b.options
	flags := flag.NewFlagSet("tour seeds", flag.ContinueOnError)
	flags.SetOutput(out)
	flags.BoolVar(&o.Quick, "quick", false, "three repetitions of 5 s; cannot show p99 of apache")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 5, quick 3)")
	flags.DurationVar(&o.Duration, "duration", 0, "load of one arm (default 15s, quick 5s)")
	flags.StringVar(&o.Out, "out", "", "directory for the raw data, summary.json, seeds.md and seeds.svg")
	flags.StringVar(&b.version, "version", "dev", "what is measured, for the report")
	if err := flags.Parse(args); err != nil {
		return nil, err
	}
	for _, name := range flags.Args() {
		if !slices.Contains(seeds.Names(), name) {
			return nil, fmt.Errorf("seeds: experiment %q: allowed, after the flags: %q", name, seeds.Names())
		}
	}
	if o.Repetitions < 0 || o.Duration < 0 {
		return nil, errors.New("seeds: --reps and --duration: allowed: above 0")
	}
	o.Fill()
	o.Names = flags.Args()
	return b, nil
}

// run measures the experiments and prints the report.
func (b *seedBench) run(ctx context.Context) error {
	report, err := b.report(ctx)
	if report != nil {
		err = errors.Join(err, seeds.WriteTable(b.out, report))
	}
	return err
}

// report measures the experiments. The report may be complete also with an error.
func (b *seedBench) report(ctx context.Context) (*seeds.Report, error) {
	at, err := b.open(ctx, b.version)
	if err != nil {
		return nil, err
	}
	defer at.root.Close()
	machine, err := topology.Discover(at.root.FS())
	if err != nil {
		return nil, err
	}
	b.host, b.cpus, b.numa = at.host, machine.Online.Size(), len(machine.Nodes)
	b.limit = seeds.Limit(b.cpus)
	o := b.options
	o.Machine, o.Progress, o.Root, o.Open = at.machine, at.progress, at.root, b.openSeed
	return seeds.Run(ctx, o)
}

// openSeed opens an experiment.
func (b *seedBench) openSeed(ctx context.Context, name string) (seeds.Opened, error) {
	switch name {
	case "nginx":
		return b.openNginx(ctx)
	case "cal-pi":
		return b.openPi(ctx)
	case "apache":
		return b.openApache(ctx)
	case "online":
		return b.openOnline()
	case "redis":
		return b.openRedis(ctx)
	}
	return nil, fmt.Errorf("%w pods for this experiment: berth bench seeds %s measures it without a cluster", bench.ErrMissing, name)
}
