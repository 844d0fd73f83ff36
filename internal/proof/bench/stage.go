package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// Period is the CFS period of the groups that the benchmarks make.
const Period unit.Micros = 100_000

// Prefix begins the names of all groups that the benchmarks and the demo make, so that a later run can sweep the groups
// of a killed run.
const Prefix = scratch.Prefix + "bench-"

// startTimeout is how long a server has to start.
const startTimeout = 20 * time.Second

// Place is where groups are made: a host, the group below which this program may make groups ("" is the root of each
// hierarchy), and how careful the agent must be with that host.
type Place struct {
	Host   *cgroup.Host
	Parent string
	// Threshold is the agent's sharePoolThresholdPercent.
	Threshold int
}

// Stage is a fresh group in which a program of Berth runs. It is for one goroutine. The caller must close it.
type Stage struct {
	place Place
	group *scratch.Group
	meter *Meter
	child *Child
	// Address is the request server's address, empty for other programs.
	Address string
	// request is the path and the encoding of requests.
	request load.Generator
}

// OpenStage makes the group and starts the hidden subcommand in it. A quota of unit.NoLimit means no limit.
func OpenStage(place Place, name string, quota unit.Micros, args ...string) (stage *Stage, err error) {
	return openStage(place, name, quota, func() (*Child, error) { return StartChild("load "+args[0], append([]string{"load"}, args...)...) })
}

// openStage makes the group, and moves a child into it that waits for that.
func openStage(place Place, name string, quota unit.Micros, start func() (*Child, error)) (stage *Stage, err error) {
	s := &Stage{place: place}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	group, err := scratch.New(place.Host, place.Parent, scratch.Name("bench-"+name))
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", name, err)
	}
	s.group = group
	if quota != unit.NoLimit {
		if err = s.group.SetMax(quota, Period); err != nil {
			return nil, fmt.Errorf("stage %s: %w", name, err)
		}
	}
	if s.meter, err = OpenMeter(place.Host, s.group.Path()); err != nil {
		return nil, fmt.Errorf("stage %s: %w", name, err)
	}
	if s.child, err = start(); err != nil {
		return nil, err
	}
	if err = errors.Join(s.group.Attach(s.child.PID()), s.child.Moved()); err != nil {
		return nil, fmt.Errorf("stage %s: %w", name, err)
	}
	return s, nil
}

// OpenServer makes a stage with a request server, warm and ready. args are additional arguments of the server.
func OpenServer(ctx context.Context, place Place, name string, quota unit.Micros, args ...string) (*Stage, error) {
	s, err := OpenStage(place, name, quota, append([]string{"serve"}, args...)...)
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if s.Address, err = s.child.FirstLine(starting); err == nil {
		err = WarmUp(starting, s.Address)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// Path returns the group's path.
func (s *Stage) Path() string { return s.group.Path() }

// Group returns the group, for arms that set its knobs.
func (s *Stage) Group() *scratch.Group { return s.group }

// Bandwidth returns the limit in effect.
func (s *Stage) Bandwidth() (cgroup.Bandwidth, error) { return s.meter.Bandwidth() }

// CPUs returns the CPUs that the kernel lets the group use.
func (s *Stage) CPUs() (cpuset.Set, error) {
	cpus, err := s.group.Handle().EffectiveCPUs()
	if err != nil {
		return cpus, fmt.Errorf("stage %s: %w", s.Path(), err)
	}
	return cpus, nil
}

// Counters reads the counters of the group and its ancestors.
func (s *Stage) Counters() (Counters, error) { return s.meter.Counters() }

// Run runs another hidden subcommand in the stage's group, and returns the first line that it prints.
func (s *Stage) Run(ctx context.Context, args ...string) (line string, err error) {
	child, err := StartChild("load "+args[0], append([]string{"load"}, args...)...)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, child.Stop()) }()
	if err := errors.Join(s.group.Attach(child.PID()), child.Moved()); err != nil {
		return "", fmt.Errorf("stage %s: %w", s.Path(), err)
	}
	return child.FirstLine(ctx)
}

// Alive returns an error that says why the stage's program ended, nil while it runs.
func (s *Stage) Alive() error { return s.child.Alive() }

// Load sends the arrivals to the stage's server and returns the outcome without Writes.
func (s *Stage) Load(ctx context.Context, work time.Duration, arrivals []time.Duration) (Outcome, error) {
	request := s.request
	request.Address, request.Work = s.Address, work
	return s.meter.Load(ctx, request, arrivals)
}

// Kill is Close for a program that needs no orderly end. In an idle group of a busy machine the program may get no CPU
// time to end by itself before Close gives up. It fails if the program had ended before.
func (s *Stage) Kill() error {
	return errors.Join(s.child.Alive(), s.child.Kill(), s.Close())
}

// Close ends the program and removes the group. It can be called twice.
func (s *Stage) Close() error {
	var errs []error
	if s.child != nil {
		errs = append(errs, s.child.Stop())
	}
	if s.meter != nil {
		errs = append(errs, s.meter.Close())
	}
	if s.group != nil {
		errs = append(errs, s.group.Close())
	}
	s.child, s.meter, s.group = nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close stage: %w", err)
	}
	return nil
}
