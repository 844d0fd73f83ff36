package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// Options configures the demonstration.
type Options struct {
	Home    *Home
	Machine bench.Machine
	// Topology describes the machine in a few lines, for the report.
	Topology string
	Limit    unit.CPUs
	Pattern  load.Pattern
	// Work is the CPU time of one request.
	Work time.Duration
	// Rounds is the number of rounds of slices; in each round, all arms get the same arrivals.
	Rounds int
	// Slice is how long one arm is under load in one round.
	Slice time.Duration
	// Progress is called with the current step; it may be nil.
	Progress func(string)
}

// The arms of the demonstration.
const (
	unlimited = "unlimited"
	limited   = "limited"
	managed   = "limited, with berth"
)

// arms returns the arms in the order of the table.
func arms() []string { return []string{unlimited, limited, managed} }

// settle is the pause before a slice, in which a group's quota refills.
const settle = 200 * time.Millisecond

// ErrNotRestored reports that a file does not read as before.
var ErrNotRestored = errors.New("a file does not read as before")

// Run runs the demonstration and returns its report, also together with ErrNotRestored. Everything that Run made is
// gone when it returns, also when ctx ends, which is an error.
func Run(ctx context.Context, o Options) (report *Report, err error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	d := &run{Options: o, stages: map[string]*bench.Stage{}, outcomes: map[string][]bench.Outcome{}}
	defer func() { err = errors.Join(err, d.close()) }()
	if err := d.start(ctx); err != nil {
		return nil, err
	}
	if err := d.slices(ctx); err != nil {
		return nil, err
	}
	report = d.report()
	if err := d.rollback(ctx, report); err != nil {
		return nil, err
	}
	if !report.Restored {
		return report, ErrNotRestored
	}
	return report, nil
}

// run is a demonstration under way.
type run struct {
	Options
	stages   map[string]*bench.Stage
	agent    *bench.Agent
	notes    []string
	writes   int
	files    []FileProof
	outcomes map[string][]bench.Outcome
}

// start starts the three servers, and the agent on the managed server.
func (d *run) start(ctx context.Context) error {
	for i, arm := range arms() {
		d.Progress("starting the server: " + arm)
		quota := d.Limit.Quota(bench.Period)
		if arm == unlimited {
			quota = unit.NoLimit
		}
		stage, err := bench.OpenServer(ctx, d.Home.Place, fmt.Sprintf("demo%d", i), quota)
		if err != nil {
			return fmt.Errorf("server %s: %w", arm, err)
		}
		d.stages[arm] = stage
	}
	var err error
	if d.files, err = readFiles(d.Home.Place.Host, d.stages[managed].Path()); err != nil {
		return err
	}
	d.Progress("starting berth agent")
	return d.startAgent(ctx)
}

// startAgent starts the agent on the managed server. If the machine is busy and the agent does not raise the quota, the
// report says so.
func (d *run) startAgent(ctx context.Context) error {
	stage := d.stages[managed]
	agent, err := bench.StartAgent(bench.AgentSetup{Threshold: d.Home.Place.Threshold, Workloads: []bench.AgentWorkload{{
		Name: "demo", Cgroup: stage.Path(), LimitCPUs: float64(d.Limit), Burst: bench.DefaultBurst(),
	}}})
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	d.agent = agent
	err = bench.AwaitRaise(ctx, agent, d.Limit, stage)
	if errors.Is(err, bench.ErrNotRaised) {
		d.notes = append(d.notes, fmt.Sprintf("the agent has not raised the quota before the load began: "+
			"more than %d %% of this machine's CPUs are in use, and then quotas rise less or not at all", d.Home.Place.Threshold))
		return nil
	}
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// slices runs each arm once in every round. The order rotates; the arrivals change with the round and are the same for
// its arms.
func (d *run) slices(ctx context.Context) error {
	names := arms()
	for round := range d.Rounds {
		pattern := d.Pattern
		pattern.Seed += uint64(round)
		arrivals, err := pattern.Arrivals(d.Slice)
		if err != nil {
			return fmt.Errorf("arrivals: %w", err)
		}
		for i := range names {
			arm := names[(i+round)%len(names)]
			d.Progress(fmt.Sprintf("round %d of %d: %s", round+1, d.Rounds, arm))
			if err := load.Pause(ctx, settle); err != nil {
				return err
			}
			outcome, err := d.stages[arm].Load(ctx, d.Work, arrivals)
			if err != nil {
				return fmt.Errorf("arm %s: %w", arm, err)
			}
			d.outcomes[arm] = append(d.outcomes[arm], outcome)
		}
	}
	var err error
	d.writes, err = d.agent.Writes()
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return nil
}

// rollback kills the agent, rolls back with the command that a user would use, and compares the files.
func (d *run) rollback(ctx context.Context, report *Report) error {
	d.Progress("killing the agent, then rolling back")
	if err := d.agent.Kill(); err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	if err := d.readAgain(func(f *FileProof, now string) { f.During = now }); err != nil {
		return err
	}
	child, err := bench.StartChild("berth rollback", "rollback", "--config", d.agent.Config())
	if err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	if err := child.Wait(ctx); err != nil {
		return fmt.Errorf("rollback: %w", err)
	}
	if err := d.readAgain(func(f *FileProof, now string) { f.After = now }); err != nil {
		return err
	}
	report.Files, report.Restored = d.files, true
	for _, f := range d.files {
		report.Restored = report.Restored && f.Before == f.After
	}
	return nil
}

func (d *run) readAgain(put func(*FileProof, string)) error {
	now, err := readFiles(d.Home.Place.Host, d.stages[managed].Path())
	if err != nil {
		return err
	}
	for i := range d.files {
		put(&d.files[i], now[i].Before)
	}
	return nil
}

// close removes the agent, then the groups.
func (d *run) close() error {
	var errs []error
	if d.agent != nil {
		errs = append(errs, d.agent.Remove())
	}
	for _, arm := range arms() {
		if stage := d.stages[arm]; stage != nil {
			errs = append(errs, stage.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
