package bench

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// boundary is how the law of package isolate divides the cores for the load of this run. It does not move during the
// run: the latencies here do not show what moves are worth.
type boundary struct {
	isolate.Decision
	scheduler

	// all is the CPUs that this program may use.
	all cpuset.Set
	// reserve is the CPUs that hogs leave free in the arm with a reserve.
	reserve cpuset.Set
}

const (
	// calibration is how long the server runs alone before the boundary is set.
	calibration = 5 * time.Second
	// boundaryStep is the time between decisions of the law, without further samples, until offline work has all of its
	// target.
	boundaryStep = time.Minute
)

// checkIdle returns an error if a group cannot be idle here.
func (o InterferenceOptions) checkIdle() error {
	group, err := scratch.New(o.Place.Host, o.Place.Parent, scratch.Name("bench-idle"))
	if err != nil {
		return fmt.Errorf("bench interference: %w", err)
	}
	err = errors.Join(group.SetPrecedence(cgroup.Idle), group.Close())
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, cgroup.ErrNoKnob) {
		return fmt.Errorf("cpu.idle of control groups, since Linux 5.15: %w: %w", kernel.ErrNotSupported, err)
	}
	if err != nil {
		return fmt.Errorf("bench interference: %w", err)
	}
	return nil
}

// boundary measures the use of the server alone, and asks the law.
func (o InterferenceOptions) boundary(ctx context.Context) (b boundary, err error) {
	top, err := topology.Discover(o.Root.FS())
	if err != nil {
		return b, fmt.Errorf("bench interference: %w", err)
	}
	if b.all, err = o.Place.effective(); err != nil {
		return b, err
	}
	node := isolate.Node{Policy: isolate.DefaultPolicy(), Movable: isolate.Movable(top, b.all, top.Reserved.Union(top.Isolated))}
	b.reserve = isolate.Reserve(node.Movable, cpuset.Set{}, o.Reserve)
	arrivals, err := o.Pattern.Arrivals(calibration)
	if err != nil {
		return b, fmt.Errorf("bench interference: %w", err)
	}
	stage, err := OpenServer(ctx, o.Place, "calibrate", unit.NoLimit)
	if err != nil {
		return b, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	var law isolate.Boundary
	now := kernel.Monotonic()
	look := func() error {
		spent, err := kernel.CPUsSpent(o.Root)
		if err != nil {
			return fmt.Errorf("bench interference: %w", err)
		}
		now = kernel.Monotonic()
		law.Look(now, spent)
		law.Decide(now, node)
		return nil
	}
	if err := look(); err != nil {
		return b, err
	}
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	go func() { looked <- every(looking, time.Second, look) }()
	_, err = stage.Load(ctx, o.Work, arrivals)
	stop()
	if err = errors.Join(err, <-looked, look()); err != nil {
		return b, err
	}
	for node.Offline = true; ; now += boundaryStep {
		before := b.Size
		if b.Decision = law.Decide(now, node); b.Size == before {
			return b, nil
		}
	}
}

// effective returns the CPUs that groups below the place can have.
func (p Place) effective() (cpuset.Set, error) {
	cpus, err := cgroup.Peek(p.Host, p.Parent, (*cgroup.Group).EffectiveCPUs)
	if err != nil {
		return cpuset.Set{}, fmt.Errorf("CPUs of the benchmark: %w", err)
	}
	return cpus, nil
}

// run runs one arm: the server, the hogs beside it, and the arrivals.
func (o InterferenceOptions) run(ctx context.Context, name string, b boundary, arrivals []time.Duration) (outcome Outcome, left beside, err error) {
	stage, err := OpenServer(ctx, o.Place, "victim-"+slug(name), unit.NoLimit)
	if err != nil {
		return outcome, left, err
	}
	defer func() { err = errors.Join(err, stage.Close()) }()
	if name == OwnCores || name == AloneOnCores {
		if err := stage.Group().SetCPUs(b.Online); err != nil {
			return outcome, left, fmt.Errorf("the server's cores: %w", err)
		}
		// This program makes the load, and is online work like the server.
		if err := kernel.Confine(b.Online); err != nil {
			return outcome, left, fmt.Errorf("the load's cores: %w", err)
		}
		defer func() { err = errors.Join(err, kernel.Confine(b.all)) }()
	}
	hogs, err := o.hogs(name, b)
	if err != nil {
		return outcome, left, err
	}
	if hogs != nil {
		defer func() { err = errors.Join(err, hogs.Kill()) }()
	}
	if err := load.Pause(ctx, settle); err != nil {
		return outcome, left, err
	}
	before, err := o.spent(stage, hogs)
	if err != nil {
		return outcome, left, err
	}
	of := map[int]side{stage.child.PID(): online}
	if hogs != nil {
		of[hogs.child.PID()] = offline
	}
	seen, err := b.beside(ctx, of, func() (err error) {
		outcome, err = stage.Load(ctx, o.Work, arrivals)
		return err
	})
	if err != nil {
		return outcome, left, err
	}
	after, err := o.spent(stage, hogs)
	left = after.since(before)
	left.Behind, left.Lost = seen.behind, seen.lost
	if hogs != nil {
		left.Together = seen.together
	}
	return outcome, left, err
}

// hasHogs reports whether an arm has offline work.
func hasHogs(name string) bool { return name != Alone && name != AloneOnCores && name != AloneAgain }

// hogs starts the offline work of an arm: for every CPU a thread that only burns. It returns nil where the server is
// alone.
func (o InterferenceOptions) hogs(name string, b boundary) (*Stage, error) {
	if !hasHogs(name) {
		return nil, nil //nolint:nilnil // no hogs are an answer
	}
	quota := unit.NoLimit
	if name == Quota80 {
		quota = unit.CPUs(quotaShare * float64(o.Machine.CPUs)).Quota(Period)
	}
	hogs, err := OpenStage(o.Place, "hogs-"+slug(name), quota, "burn", "--threads", fmt.Sprint(o.Machine.CPUs))
	if err != nil {
		return nil, err
	}
	switch name {
	case LowestWeight:
		err = hogs.Group().SetPrecedence(o.lowest())
	case IdleGroup:
		err = hogs.Group().SetPrecedence(cgroup.Idle)
	case IdleReserve:
		err = errors.Join(hogs.Group().SetPrecedence(cgroup.Idle), hogs.Group().SetCPUs(b.all.Difference(b.reserve)))
	case OwnCores:
		err = hogs.Group().SetCPUs(b.Offline)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("hogs: %w", err), hogs.Close())
	}
	return hogs, nil
}

// lowest returns the weight that the kubelet gives to BestEffort pods.
func (o InterferenceOptions) lowest() cgroup.Value {
	if hier, err := o.Place.Host.Hierarchy(cgroup.CPU); err == nil && hier.Version == 1 {
		return cgroup.SharesValue(2)
	}
	return cgroup.WeightValue(1)
}

// spentAll is the CPU time of the machine and the hogs up to a moment.
type spentAll struct {
	at          time.Duration
	hogs        unit.CPUTime
	idle, steal unit.CPUTime
	// waited is how long the server's threads had no CPU, if the kernel reports it.
	waited time.Duration
	waits  bool
}

func (o InterferenceOptions) spent(server, hogs *Stage) (s spentAll, err error) {
	if s.waited, s.waits, err = schedstat(o.Root.FS(), server.child.PID(), waited); err != nil {
		return s, fmt.Errorf("bench interference: server: %w", err)
	}
	all, err := kernel.CPUsSpent(o.Root)
	if err != nil {
		return s, fmt.Errorf("bench interference: %w", err)
	}
	s.at = kernel.Monotonic()
	for _, one := range all {
		s.idle += one.Idle
		s.steal += one.Steal
	}
	if hogs != nil {
		counters, err := hogs.Counters()
		if err != nil {
			return s, err
		}
		s.hogs = counters.CPU
	}
	return s, nil
}

func (s spentAll) since(before spentAll) beside {
	per := func(now, then unit.CPUTime) float64 { return float64(now.Since(then).Seconds().Per(s.at - before.at)) }
	left := beside{Hogs: per(s.hogs, before.hogs), Idle: per(s.idle, before.idle), Steal: per(s.steal, before.steal)}
	if s.waits && before.waits {
		left.Waited = new(float64(s.waited-before.waited) / float64(s.at-before.at))
	}
	return left
}
