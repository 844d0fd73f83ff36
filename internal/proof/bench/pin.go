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

// pinTimeout is how long the agent has to give the server its CPUs and to narrow the neighbour.
const pinTimeout = 15 * time.Second

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
	if with.server, with.neighbour, err = effectiveOf(server, neighbour); err != nil {
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
	setup := AgentSetup{Threshold: o.Place.Threshold, Workloads: []AgentWorkload{{
		Name: "server", Cgroup: server.Path(), LimitCPUs: float64(o.CPUs), Annotations: map[string]string{"cpuset-scheduler": "true"},
	}}}
	if neighbour != nil {
		setup.SharedPool = []string{neighbour.Path()}
	}
	agent, err := StartAgent(setup)
	if err != nil {
		return nil, err
	}
	var cpus cpuset.Set
	pinned := func() (bool, error) {
		var others cpuset.Set
		var err error
		cpus, others, err = effectiveOf(server, neighbour)
		return cpus.Size() == o.CPUs && !cpus.Intersects(others), err
	}
	pinning, cancel := context.WithTimeout(ctx, pinTimeout)
	defer cancel()
	err = Await(pinning, pinned, agent.Alive)
	if isLate(ctx, err) {
		err = fmt.Errorf("%s after %s: %w: %s", server.Path(), pinTimeout, ErrNotPinned, agent.child.tail)
	}
	if err == nil {
		err = kernel.Confine(cpus)
	}
	if err != nil {
		return nil, errors.Join(err, agent.Remove())
	}
	return func() error { return errors.Join(kernel.Confine(all), agent.Remove()) }, nil
}

// effectiveOf returns the effective CPUs of the two groups; the neighbour may be nil.
func effectiveOf(server, neighbour *Stage) (of, others cpuset.Set, err error) {
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
