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

// The load of a server beside work that takes all CPUs: enough requests in six seconds for a p99.
const (
	requestRate = 200
	requestWork = 1500 * time.Microsecond
)

// placed is the name of the arm with exclusive CPUs.
const placed = "pinned, with berth"

// place shows a server beside a neighbour that takes all CPUs: on the same CPUs, and with a CPU of its own.
type place struct {
	Options

	server, neighbour *bench.Stage
	agent             *bench.Agent
	proof             proof
}

// lacks returns why no group can get CPUs of its own here, "" if one can.
func (p *place) lacks() string {
	if len(p.Host.Cores) < 2 {
		return "this machine has one core"
	}
	return p.Managed
}

func (p *place) show(ctx context.Context, r *Report) (string, error) {
	p.Progress("place: starting a server and a neighbour")
	var err error
	if p.server, err = bench.OpenServer(ctx, p.Home.Place, "demo-place", unit.CPUs(1).Quota(bench.Period)); err != nil {
		return "", err
	}
	if p.neighbour, err = bench.OpenStage(p.Home.Place, "demo-neighbour", unit.NoLimit, "burn", "--threads", fmt.Sprint(p.Host.Online.Size())); err != nil {
		return "", err
	}
	p.proof.host = p.Home.Place.Host
	for _, stage := range []*bench.Stage{p.server, p.neighbour} {
		if err := p.proof.watch(stage.Path(), cgroup.CPUSet, "cpuset.cpus", "cpuset.mems"); err != nil {
			return "", err
		}
	}
	table := Part{
		Capability: "place", Title: "a server with a limit of one CPU, beside a neighbour that takes all CPUs; pinned, it has no other CPU to go to",
		Header: []string{"ARM", "CPUS OF THE SERVER", "OF THE NEIGHBOUR", "N", "P50 MS", "P99 MS"},
	}
	if err := p.arm(ctx, "limited", &table); err != nil {
		return "", err
	}
	if p.agent, err = bench.PinServer(ctx, p.server, p.neighbour, 1); err != nil {
		return "", fmt.Errorf("agent: %w", err)
	}
	if err := p.arm(ctx, placed, &table); err != nil {
		return "", err
	}
	err = p.proof.wayBack(ctx, p.Progress, p.agent)
	r.Parts, r.Files = append(r.Parts, table), append(r.Files, p.proof.changed()...)
	return "", err
}

// arm measures the server and adds a row.
func (p *place) arm(ctx context.Context, name string, table *Part) error {
	p.Progress("place: " + name)
	outcome, err := measured(ctx, p.server, p.Arm)
	if err != nil {
		return err
	}
	server, neighbour, err := bench.CPUsOf(p.server, p.neighbour)
	if err != nil {
		return fmt.Errorf("CPUs of the groups: %w", err)
	}
	s := bench.Summarize(name, []bench.Repetition{{name: outcome}})
	table.Rows = append(table.Rows, []string{name, server.String(), neighbour.String(), fmt.Sprint(s.Requests), bench.Millis(s.P50), bench.Millis(s.P99)})
	return nil
}

// measured loads a server with the usual requests.
func measured(ctx context.Context, server *bench.Stage, d time.Duration) (bench.Outcome, error) {
	pattern := load.Pattern{Rate: requestRate, Batch: 1, Seed: 1}
	arrivals, err := pattern.Arrivals(d)
	if err != nil {
		return bench.Outcome{}, fmt.Errorf("arrivals: %w", err)
	}
	if err := load.Pause(ctx, settle); err != nil {
		return bench.Outcome{}, err
	}
	return server.Load(ctx, requestWork, arrivals)
}

func (p *place) close() error { return closeAll(p.agent, p.server, p.neighbour) }

// closeAll removes an agent, and then groups; each may be nil.
func closeAll(agent *bench.Agent, stages ...*bench.Stage) error {
	var errs []error
	if agent != nil {
		errs = append(errs, agent.Remove())
	}
	for _, stage := range stages {
		if stage != nil {
			errs = append(errs, stage.Close())
		}
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("clean up: %w", err)
	}
	return nil
}
