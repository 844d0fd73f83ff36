package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// The arms of bench pin that bench interference does not have.
const (
	SharedCPUs  = "shared"
	Pinned      = "pinned"
	PinnedAlone = "pinned alone"
)

// PinArms lists the arms of bench pin in the order of its table.
func PinArms() []string { return []string{Alone, SharedCPUs, Pinned, PinnedAlone, AloneAgain} }

// ErrNotPinned reports that the agent did not give the server its CPUs in time.
var ErrNotPinned = errors.New("the agent has not pinned the server")

// PinOptions configures bench pin.
type PinOptions struct {
	LoadOptions

	// CPUs is the server's limit: how many CPUs it has exclusively when it is pinned.
	CPUs int
}

// besidePinned is what one arm of one repetition had beside the latencies.
type besidePinned struct {
	// server and neighbour are the CPUs that the kernel lets them use; without a neighbour its CPUs are empty.
	server, neighbour cpuset.Set
	// use is the mean number of CPUs that the neighbour used.
	use float64
}

// RunPin measures all arms and returns the report. Everything it made is gone when it returns, also when ctx ends,
// which is an error.
func RunPin(ctx context.Context, o PinOptions) (*PinReport, error) {
	if err := o.open("pin"); err != nil {
		return nil, err
	}
	r := &PinReport{Machine: o.Machine, Setup: o.setup(), Repetitions: o.Repetitions}
	all, err := measureArms(o.LoadOptions, PinArms(), func(arm string, arrivals []time.Duration) (Outcome, besidePinned, error) {
		return o.run(ctx, arm, arrivals)
	})
	if err != nil {
		return nil, err
	}
	r.summarize(all)
	r.Goals = judgePin(r)
	r.note(o)
	return r, WriteSummary(o.Out, r)
}

func (o PinOptions) setup() PinSetup {
	return PinSetup{
		CPUs: o.CPUs, RequestsPerSec: o.Pattern.Rate * float64(o.Pattern.Batch), WorkMicros: o.Work.Microseconds(), NeighbourThreads: o.Machine.CPUs,
		ArmSeconds: o.Duration.Seconds(), Seed: o.Pattern.Seed, Quick: o.Quick,
	}
}

// run runs one arm: the server, the neighbour beside it, the agent where the server is pinned, and the arrivals.
func (o PinOptions) run(ctx context.Context, name string, arrivals []time.Duration) (outcome Outcome, with besidePinned, err error) {
	server, err := OpenServer(ctx, o.Place, "pin-"+slug(name), unit.CPUs(o.CPUs).Quota(Period))
	if err != nil {
		return outcome, with, err
	}
	defer func() { err = errors.Join(err, server.Close()) }()
	var neighbour *Stage
	if name == SharedCPUs || name == Pinned {
		neighbour, err = OpenStage(o.Place, "pin-neighbour-"+slug(name), unit.NoLimit, "burn", "--threads", fmt.Sprint(o.Machine.CPUs))
		if err != nil {
			return outcome, with, err
		}
		defer func() { err = errors.Join(err, neighbour.Close()) }()
	}
	if name == Pinned || name == PinnedAlone {
		release, err := o.pin(ctx, server, neighbour)
		if err != nil {
			return outcome, with, err
		}
		defer func() { err = errors.Join(err, release()) }()
	}
	if err := load.Pause(ctx, settle); err != nil {
		return outcome, with, err
	}
	if with.server, with.neighbour, err = CPUsOf(server, neighbour); err != nil {
		return outcome, with, err
	}
	using, err := usage(neighbour)
	if err != nil {
		return outcome, with, err
	}
	if outcome, err = server.Load(ctx, o.Work, arrivals); err != nil {
		return outcome, with, err
	}
	with.use, err = using()
	return outcome, with, err
}

// pin has the agent pin the server, and moves the load of this program onto the server's CPUs: it belongs to the
// server. The returned function ends both.
func (o PinOptions) pin(ctx context.Context, server, neighbour *Stage) (release func() error, err error) {
	all, err := o.Place.effective()
	if err != nil {
		return nil, err
	}
	agent, err := PinServer(ctx, server, neighbour, o.CPUs)
	if err != nil {
		return nil, err
	}
	cpus, err := server.CPUs()
	if err == nil {
		err = kernel.Confine(cpus)
	}
	if err != nil {
		return nil, errors.Join(err, agent.Remove())
	}
	return func() error { return errors.Join(kernel.Confine(all), agent.Remove()) }, nil
}

// PinServer starts an agent that gives a server with that limit its CPUs exclusively, and keeps the neighbour off them;
// the neighbour may be nil. PinServer returns when the kernel has both, or fails with ErrNotPinned.
func PinServer(ctx context.Context, server, neighbour *Stage, limit int) (*Agent, error) {
	setup := AgentSetup{Threshold: server.place.Threshold, Workloads: []AgentWorkload{{
		Name: "server", Cgroup: server.Path(), LimitCPUs: float64(limit), Annotations: map[string]string{"cpuset-scheduler": "true"},
	}}}
	if neighbour != nil {
		setup.SharedPool = []string{neighbour.Path()}
	}
	agent, err := StartAgent(setup)
	if err != nil {
		return nil, err
	}
	err = agent.React(ctx, server.Path(), ErrNotPinned, func() (bool, error) {
		cpus, others, err := CPUsOf(server, neighbour)
		return cpus.Size() == limit && !cpus.Intersects(others), err
	})
	if err != nil {
		return nil, errors.Join(err, agent.Remove())
	}
	return agent, nil
}

// CPUsOf returns the CPUs that the kernel lets a server and its neighbour use; the neighbour may be nil.
func CPUsOf(server, neighbour *Stage) (of, others cpuset.Set, err error) {
	if of, err = server.CPUs(); err != nil || neighbour == nil {
		return of, others, err
	}
	others, err = neighbour.CPUs()
	return of, others, err
}

// usage begins to measure the CPU time of a neighbour. The returned function says how many CPUs it used since; without
// a neighbour it says 0.
func usage(neighbour *Stage) (using func() (float64, error), err error) {
	if neighbour == nil {
		return func() (float64, error) { return 0, nil }, nil
	}
	before, err := neighbour.Counters()
	if err != nil {
		return nil, err
	}
	return func() (float64, error) {
		after, err := neighbour.Counters()
		return float64(after.CPU.Since(before.CPU).Seconds()) / after.At.Sub(before.At).Seconds(), err
	}, nil
}
