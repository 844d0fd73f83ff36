package bench

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// Control changes a stage's quota while an arm runs.
type Control interface {
	// Writes returns the number of quota and burst writes so far.
	Writes() (int, error)
	// Stop ends the control; the quota stays as it is.
	Stop() error
}

// ErrNotRaised reports that the agent did not raise a group's quota in time.
var ErrNotRaised = errors.New("the agent has not raised the quota (is this machine busy?)")

// raiseTimeout is how long the agent has to find and raise a group. It covers the ten seconds over which the agent
// averages the use of the machine.
const raiseTimeout = 15 * time.Second

// control starts the control of an arm without an agent; stage is warm and idle.
func control(arm string, stage *Stage, limit unit.CPUs) (Control, error) {
	switch arm {
	case KernelBurst:
		return burstControl(stage, limit)
	case Koordinator:
		return startEmulation(stage, limit)
	default:
		return fixed(0), nil
	}
}

// fixed is a control that made a number of writes once.
type fixed int

func (f fixed) Writes() (int, error) { return int(f), nil }
func (fixed) Stop() error            { return nil }

// burstControl gives the group the largest burst that mainline accepts: burst = quota.
func burstControl(stage *Stage, limit unit.CPUs) (Control, error) {
	if err := stage.Group().SetBurst(limit.Quota(Period)); err != nil {
		return nil, fmt.Errorf("kernel burst arm: %w", err)
	}
	return fixed(1), nil
}

// emulator runs Koordinator's loop on a stage's group.
type emulator struct {
	writes atomic.Int64
	stop   context.CancelFunc
	ended  chan error
}

// reconcileInterval is Koordinator's interval.
const reconcileInterval = time.Second

func startEmulation(stage *Stage, limit unit.CPUs) (Control, error) {
	reader, err := stage.place.Host.Group(stage.Path())
	if err != nil {
		return nil, fmt.Errorf("koordinator emulation: %w", err)
	}
	before, err := reader.Throttling()
	if err != nil {
		return nil, fmt.Errorf("koordinator emulation: %w", errors.Join(err, reader.Close()))
	}
	ctx, cancel := context.WithCancel(context.Background())
	e := &emulator{stop: cancel, ended: make(chan error, 1)}
	law := newEmulation(limit.Quota(Period))
	tick := func() error {
		now, err := reader.Throttling()
		if err != nil {
			return err
		}
		throttled := now.Throttled > before.Throttled
		before = now
		quota, write := law.Tick(throttled)
		if !write {
			return nil
		}
		e.writes.Add(1)
		return stage.Group().SetMax(quota, Period)
	}
	go func() {
		err := every(ctx, reconcileInterval, tick)
		e.ended <- errors.Join(err, reader.Close())
	}()
	return e, nil
}

// every calls f at each interval until ctx ends or f fails.
func every(ctx context.Context, interval time.Duration, f func() error) error {
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			if err := f(); err != nil {
				return err
			}
		case <-ctx.Done():
			return nil
		}
	}
}

func (e *emulator) Writes() (int, error) { return int(e.writes.Load()), nil }

func (e *emulator) Stop() error {
	e.stop()
	err := <-e.ended
	e.ended <- nil // A second Stop does not block.
	if err != nil {
		return fmt.Errorf("koordinator emulation: %w", err)
	}
	return nil
}

// berthControl is the real agent on the stages of an arm.
type berthControl struct {
	*Agent
}

// startBerth starts the agent on the group of the server and on the groups beside it, and waits until every quota is
// raised.
func startBerth(ctx context.Context, burst Burst, limit unit.CPUs, server *Stage, beside ...*Stage) (*berthControl, error) {
	workloads := []AgentWorkload{{Name: "server", Cgroup: server.Path(), LimitCPUs: float64(limit), Burst: burst}}
	for i, stage := range beside {
		workloads = append(workloads, AgentWorkload{
			Name: fmt.Sprintf("neighbour%d", i), Cgroup: stage.Path(), LimitCPUs: float64(limit / neighbourShare), Burst: burst,
		})
	}
	agent, err := StartAgent(AgentSetup{Threshold: server.place.Threshold, Workloads: workloads})
	if err != nil {
		return nil, err
	}
	b := &berthControl{agent}
	err = errors.Join(AwaitRaise(ctx, agent, limit, server), AwaitRaise(ctx, agent, limit/neighbourShare, beside...))
	if err != nil {
		return nil, errors.Join(err, b.Stop())
	}
	return b, nil
}

// Stop ends the agent and deletes its files.
func (b *berthControl) Stop() error { return b.Remove() }

// AwaitRaise waits until the quota of every stage is above its limit. It fails with ErrNotRaised, or when the agent
// ends.
func AwaitRaise(ctx context.Context, agent *Agent, limit unit.CPUs, stages ...*Stage) error {
	raising, cancel := context.WithTimeout(ctx, raiseTimeout)
	defer cancel()
	for _, stage := range stages {
		raised := func() (bool, error) {
			b, err := stage.Bandwidth()
			return b.Limit() > limit, err
		}
		err := Await(raising, raised, agent.Alive)
		if isLate(ctx, err) {
			err = fmt.Errorf("%s after %s: %w: %s", stage.Path(), raiseTimeout, ErrNotRaised, agent.child.tail)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// reactTimeout is how long the agent has to find groups and to write their files.
const reactTimeout = 15 * time.Second

// React waits until the agent has done something for a group, for 15 seconds at most. Then the error matches late, and
// has the agent's last lines. React also fails when the agent ends.
func (a *Agent) React(ctx context.Context, group string, late error, done func() (bool, error)) error {
	reacting, cancel := context.WithTimeout(ctx, reactTimeout)
	defer cancel()
	err := Await(reacting, done, a.Alive)
	if isLate(ctx, err) {
		return fmt.Errorf("%s after %s: %w: %s", group, reactTimeout, late, a.child.tail)
	}
	return err
}

// isLate reports whether a wait ended by its own time limit, and not by the end of the caller's context.
func isLate(ctx context.Context, err error) bool {
	return ctx.Err() == nil && errors.Is(err, context.DeadlineExceeded)
}

// lookInterval is how often Await checks.
const lookInterval = 20 * time.Millisecond

// Await waits until done returns true or ctx ends, as long as alive returns no error.
func Await(ctx context.Context, done func() (bool, error), alive func() error) error {
	for {
		if ok, err := done(); ok || err != nil {
			return err
		}
		if err := alive(); err != nil {
			return err
		}
		if err := load.Pause(ctx, lookInterval); err != nil {
			return err
		}
	}
}
