package demo

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/unit"
)

// errNotIdle reports that the agent did not make the offline group idle in time.
var errNotIdle = errors.New("the agent has not changed the group")

// enoughCores is how many cores make cores of their own for offline work worth it: with fewer, online work loses too
// large a part of the machine.
const enoughCores = 4

// isolate shows a server beside offline work that takes all CPUs: as an equal, and as Berth separates both.
type isolate struct {
	Options

	server, offline *bench.Stage
	agent           *bench.Agent
	proof           proof
}

func (p *isolate) lacks() string { return p.Managed }

func (p *isolate) show(ctx context.Context, r *Report) (string, error) {
	p.Progress("isolate: starting a server")
	var err error
	if p.server, err = bench.OpenServer(ctx, p.Home.Place, "demo-online", unit.NoLimit); err != nil {
		return "", err
	}
	table := Part{
		Capability: "isolate", Title: "a server beside offline work that takes all CPUs",
		Header: []string{"ARM", "CPUS OF THE SERVER", "OF OFFLINE WORK", "N", "P50 MS", "P95 MS", "P99 MS", "CPUS THAT OFFLINE WORK USED"},
	}
	if err := p.arm(ctx, "alone", &table); err != nil {
		return "", err
	}
	if p.offline, err = bench.OpenStage(p.Home.Place, "demo-offline", unit.NoLimit, "burn", "--threads", fmt.Sprint(p.Host.Online.Size())); err != nil {
		return "", err
	}
	p.proof.host = p.Home.Place.Host
	idle, err := p.idle()
	if errors.Is(err, fs.ErrNotExist) {
		return "this kernel has no cpu.idle (Linux 5.15)", nil
	}
	if err != nil {
		return "", err
	}
	err = errors.Join(
		p.proof.watch(p.server.Path(), cgroup.CPUSet, "cpuset.cpus"),
		p.proof.watch(p.offline.Path(), cgroup.CPUSet, "cpuset.cpus"),
		p.proof.watch(p.offline.Path(), cgroup.CPU, "cpu.idle", "cpu.shares", "cpu.weight"))
	if err != nil {
		return "", err
	}
	if err := p.arm(ctx, "beside an equal", &table); err != nil {
		return "", err
	}
	if err := p.start(ctx, idle); err != nil {
		return "", err
	}
	if err := p.arm(ctx, "isolated, with berth", &table); err != nil {
		return "", err
	}
	err = p.proof.wayBack(ctx, p.Progress, p.agent)
	r.Parts, r.Files = append(r.Parts, table), append(r.Files, p.proof.changed()...)
	return "", err
}

// start starts the agent, and waits until the offline group yields.
func (p *isolate) start(ctx context.Context, idle string) (err error) {
	config := map[string]any{"resource-qos-config": strategy(map[string]any{"beClass": map[string]any{"cpuQOS": map[string]any{"enable": true}}})}
	if len(p.Host.Cores) >= enoughCores {
		config["resource-threshold-config"] = strategy(map[string]any{"enable": true})
	}
	p.agent, err = bench.StartAgent(bench.AgentSetup{
		Threshold: p.Home.Place.Threshold, Config: config,
		Workloads: []bench.AgentWorkload{
			{Name: "demo-online", Cgroup: p.server.Path(), Annotations: map[string]string{}},
			{Name: "demo-offline", Cgroup: p.offline.Path(), Annotations: map[string]string{}, Labels: map[string]string{"koordinator.sh/qosClass": "BE"}},
		},
	})
	if err != nil {
		return fmt.Errorf("agent: %w", err)
	}
	return p.agent.React(ctx, p.offline.Path(), errNotIdle, func() (bool, error) {
		now, err := p.idle()
		return now != idle, err
	})
}

// strategy is a strategy for all nodes.
func strategy(fields map[string]any) map[string]any { return map[string]any{"clusterStrategy": fields} }

// idle returns the content of the offline group's cpu.idle.
func (p *isolate) idle() (string, error) {
	file, err := p.proof.fileOf(p.offline.Path(), cgroup.CPU, "cpu.idle")
	if err != nil {
		return "", err
	}
	return p.proof.read(file)
}

// arm measures the server and adds a row.
func (p *isolate) arm(ctx context.Context, name string, table *Part) error {
	p.Progress("isolate: " + name)
	var before bench.Counters
	var err error
	if p.offline != nil {
		if before, err = p.offline.Counters(); err != nil {
			return err
		}
	}
	outcome, err := measured(ctx, p.server, p.Arm)
	if err != nil {
		return err
	}
	online, err := p.server.Group().Handle().EffectiveCPUs()
	if err != nil {
		return fmt.Errorf("CPUs of the server: %w", err)
	}
	s := bench.Summarize(name, []bench.Repetition{{name: outcome}})
	row := []string{name, online.String(), "", fmt.Sprint(s.Requests), bench.Millis(s.P50), bench.Millis(s.P95), bench.Millis(s.P99), ""}
	if p.offline != nil {
		cpus, err := p.offline.Group().Handle().EffectiveCPUs()
		after, failed := p.offline.Counters()
		if err := errors.Join(err, failed); err != nil {
			return fmt.Errorf("CPUs of offline work: %w", err)
		}
		row[2], row[7] = cpus.String(), fmt.Sprintf("%.2f", after.CPU.Since(before.CPU).Duration().Seconds()/after.At.Sub(before.At).Seconds())
	}
	table.Rows = append(table.Rows, row)
	return nil
}

func (p *isolate) close() error { return closeAll(p.agent, p.server, p.offline) }
