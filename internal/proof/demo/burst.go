package demo

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// The arms of the part burst.
const (
	unlimited = "unlimited"
	limited   = "limited"
	managed   = "limited, with berth"
)

// arms returns the arms in the order of the table.
func arms() []string { return []string{unlimited, limited, managed} }

// settle is the pause before a slice, in which a group's quota refills.
const settle = 200 * time.Millisecond

// burst shows request latency without a limit, with a limit, and with the same limit and Berth's agent.
type burst struct {
	Options

	stages   map[string]*bench.Stage
	agent    *bench.Agent
	notes    []string
	writes   int
	proof    proof
	outcomes map[string][]bench.Outcome
}

func (d *burst) lacks() string { return "" }

func (d *burst) show(ctx context.Context, r *Report) (string, error) {
	d.stages, d.outcomes = map[string]*bench.Stage{}, map[string][]bench.Outcome{}
	if err := d.start(ctx); err != nil {
		return "", err
	}
	if err := d.slices(ctx); err != nil {
		return "", err
	}
	d.summarize(r)
	err := d.proof.wayBack(ctx, d.Progress, d.agent)
	r.Files = append(r.Files, d.proof.files...)
	return "", err
}

// start starts the three servers, and the agent on the managed server.
func (d *burst) start(ctx context.Context) error {
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
	d.proof.host = d.Home.Place.Host
	if err := d.proof.watch(d.stages[managed].Path(), cgroup.CPU, bandwidthFiles()...); err != nil {
		return err
	}
	d.Progress("starting berth agent")
	return d.startAgent(ctx)
}

// startAgent starts the agent on the managed server. If the machine is busy and the agent does not raise the quota, the
// report says so.
func (d *burst) startAgent(ctx context.Context) error {
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
func (d *burst) slices(ctx context.Context) error {
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

// summarize adds the arms to the report.
func (d *burst) summarize(r *Report) {
	r.Notes = append(r.Notes, d.notes...)
	for _, arm := range arms() {
		repetitions := make([]bench.Repetition, 0, d.Rounds)
		for _, outcome := range d.outcomes[arm] {
			repetitions = append(repetitions, bench.Repetition{arm: outcome})
		}
		summary := bench.Summarize(arm, repetitions)
		if arm == managed {
			summary.Writes = d.writes
		}
		r.Arms = append(r.Arms, summary)
	}
}

// close removes the agent, then the groups.
func (d *burst) close() error {
	var stages []*bench.Stage
	for _, arm := range arms() {
		stages = append(stages, d.stages[arm])
	}
	return closeAll(d.agent, stages...)
}
