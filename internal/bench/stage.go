package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/load"
	"github.com/berth-project/berth/internal/scratch"
	"github.com/berth-project/berth/internal/unit"
)

// Period is the CFS period of the groups that the benchmarks make.
const Period unit.Micros = 100_000

// Prefix begins the names of all groups that the benchmarks and the demo make,
// so that what a killed run left behind can be swept.
const Prefix = scratch.Prefix + "bench-"

// startTimeout is how long a server gets to come up.
const startTimeout = 20 * time.Second

// warmRequests are served before anything is measured: connections, page
// faults and code are warm then.
const warmRequests = 40

// Place is where groups are made: a host, the group below which this program
// may make its own ("" is the root of each hierarchy), and how careful the
// agent is to be with that host.
type Place struct {
	Host   *cgroup.Host
	Parent string
	// Threshold is the agent's sharePoolThresholdPercent.
	Threshold int
}

// Stage is a fresh group with a program of ours running in it. It is for one
// goroutine. Close it.
type Stage struct {
	place  Place
	group  *scratch.Group
	reader *cgroup.Group
	above  []*cgroup.Group
	child  *Child
	// Address is the request server's, empty for other programs.
	Address string
}

// Counters are cumulative counters of a stage's group at one moment.
type Counters struct {
	At                 time.Time
	CPU                unit.CPUTime
	Throttled, Periods uint64
	// Above is the throttled periods of all ancestors together.
	Above uint64
}

// OpenStage makes the group and starts the hidden subcommand in it. quota is
// unit.NoLimit for none.
func OpenStage(place Place, name string, quota unit.Micros, args ...string) (stage *Stage, err error) {
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
	if err = s.openReaders(); err != nil {
		return nil, fmt.Errorf("stage %s: %w", name, err)
	}
	if s.child, err = StartChild("load "+args[0], append([]string{"load"}, args...)...); err != nil {
		return nil, err
	}
	if err = s.group.Attach(s.child.PID()); err != nil {
		return nil, fmt.Errorf("stage %s: %w", name, err)
	}
	return s, nil
}

func (s *Stage) openReaders() error {
	var err error
	if s.reader, err = s.place.Host.Group(s.group.Path()); err != nil {
		return fmt.Errorf("open own group: %w", err)
	}
	for _, path := range s.reader.Ancestors() {
		group, err := s.place.Host.Group(path)
		if err != nil {
			return fmt.Errorf("open ancestor: %w", err)
		}
		s.above = append(s.above, group)
	}
	return nil
}

// OpenServer makes a stage with a request server, warm and ready.
func OpenServer(ctx context.Context, place Place, name string, quota unit.Micros) (*Stage, error) {
	s, err := OpenStage(place, name, quota, "serve")
	if err != nil {
		return nil, err
	}
	starting, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	if s.Address, err = s.child.FirstLine(starting); err == nil {
		err = warmUp(starting, s.Address)
	}
	if err != nil {
		return nil, errors.Join(err, s.Close())
	}
	return s, nil
}

// warmUp makes requests one after the other, which a limited group serves
// with hardly any CPU.
func warmUp(ctx context.Context, address string) error {
	for range warmRequests {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/work?us=100", http.NoBody)
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
		_, _ = io.Copy(io.Discard, response.Body)
		_ = response.Body.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	return nil
}

// Path is the group's path.
func (s *Stage) Path() string { return s.group.Path() }

// Group is the group, for arms that set its knobs.
func (s *Stage) Group() *scratch.Group { return s.group }

// Bandwidth reads what limit is in force.
func (s *Stage) Bandwidth() (cgroup.Bandwidth, error) {
	b, err := s.reader.Bandwidth()
	if err != nil {
		return b, fmt.Errorf("stage: %w", err)
	}
	return b, nil
}

// Counters reads the group's counters and those of its ancestors.
func (s *Stage) Counters() (Counters, error) {
	usage, err := s.reader.Usage()
	if err != nil {
		return Counters{}, fmt.Errorf("stage: %w", err)
	}
	c := Counters{At: time.Now(), CPU: usage}
	own, err := s.reader.Throttling()
	if err != nil {
		return Counters{}, fmt.Errorf("stage: %w", err)
	}
	c.Throttled, c.Periods = own.Throttled, own.Periods
	for _, group := range s.above {
		t, err := group.Throttling()
		if err != nil {
			continue // An ancestor without the cpu controller throttles nobody.
		}
		c.Above += t.Throttled
	}
	return c, nil
}

// Load sends the arrivals to the stage's server and returns what happened,
// Writes aside.
func (s *Stage) Load(ctx context.Context, work time.Duration, arrivals []time.Duration) (Outcome, error) {
	before, err := s.Counters()
	if err != nil {
		return Outcome{}, err
	}
	samples, err := load.Generator{Address: s.Address, Work: work}.Run(ctx, arrivals)
	if err != nil {
		return Outcome{}, fmt.Errorf("load: %w", err)
	}
	after, err := s.Counters()
	if err != nil {
		return Outcome{}, err
	}
	return Outcome{
		Samples:   samples,
		Throttled: after.Throttled - before.Throttled,
		Periods:   after.Periods - before.Periods,
		Above:     after.Above - before.Above,
		CPU:       after.CPU.Since(before.CPU).Duration(),
		Elapsed:   after.At.Sub(before.At),
	}, nil
}

// Close ends the program and removes the group. It can be called twice.
func (s *Stage) Close() error {
	var errs []error
	if s.child != nil {
		errs = append(errs, s.child.Stop())
	}
	if s.reader != nil {
		errs = append(errs, s.reader.Close())
	}
	for _, group := range s.above {
		errs = append(errs, group.Close())
	}
	if s.group != nil {
		errs = append(errs, s.group.Close())
	}
	s.child, s.reader, s.above, s.group = nil, nil, nil, nil
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("close stage: %w", err)
	}
	return nil
}
