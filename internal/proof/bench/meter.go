package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// warmRequests is how many requests warm connections, page faults and code before a measurement.
const warmRequests = 40

// Meter reads the CPU use and the throttling of a request server's group, and the throttling of its ancestors. Any
// program may have made the group. A Meter is for one goroutine. The caller must close it.
type Meter struct {
	reader *cgroup.Group
	above  []*cgroup.Group
}

// Counters are cumulative counters of a group at one moment.
type Counters struct {
	At                 time.Time
	CPU                unit.CPUTime
	Throttled, Periods uint64
	// Above is the sum of the throttled periods of all ancestors.
	Above uint64
}

// OpenMeter opens the group and its ancestors, which must exist.
func OpenMeter(host *cgroup.Host, path string) (m *Meter, err error) {
	m = &Meter{}
	defer func() {
		if err != nil {
			err = errors.Join(err, m.Close())
		}
	}()
	if m.reader, err = host.Group(path); err != nil {
		return m, fmt.Errorf("open group: %w", err)
	}
	for _, path := range m.reader.Ancestors() {
		group, err := host.Group(path)
		if err != nil {
			return m, fmt.Errorf("open ancestor: %w", err)
		}
		m.above = append(m.above, group)
	}
	return m, nil
}

// Bandwidth returns the limit in effect.
func (m *Meter) Bandwidth() (cgroup.Bandwidth, error) {
	b, err := m.reader.Bandwidth()
	if err != nil {
		return b, fmt.Errorf("meter: %w", err)
	}
	return b, nil
}

// Counters reads the counters of the group and its ancestors.
func (m *Meter) Counters() (Counters, error) {
	usage, err := m.reader.Usage()
	if err != nil {
		return Counters{}, fmt.Errorf("meter: %w", err)
	}
	c := Counters{At: time.Now(), CPU: usage}
	own, err := m.reader.Throttling()
	if err != nil {
		return Counters{}, fmt.Errorf("meter: %w", err)
	}
	c.Throttled, c.Periods = own.Throttled, own.Periods
	for _, group := range m.above {
		t, err := group.Throttling()
		if err != nil {
			continue // An ancestor without the cpu controller throttles no group.
		}
		c.Above += t.Throttled
	}
	return c, nil
}

// Load sends the arrivals to the server in the group and returns the outcome without Writes.
func (m *Meter) Load(ctx context.Context, generator load.Generator, arrivals []time.Duration) (Outcome, error) {
	before, err := m.Counters()
	if err != nil {
		return Outcome{}, err
	}
	samples, err := generator.Run(ctx, arrivals)
	if err != nil {
		return Outcome{}, fmt.Errorf("load: %w", err)
	}
	after, err := m.Counters()
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

// Close closes the groups' files. It can be called twice.
func (m *Meter) Close() error {
	var errs []error
	if m.reader != nil {
		errs = append(errs, m.reader.Close())
	}
	for _, group := range m.above {
		errs = append(errs, group.Close())
	}
	m.reader, m.above = nil, nil
	return errors.Join(errs...)
}

// WarmUp makes requests one after the other, which need hardly any CPU time in a limited group. It fails at the first
// request without an answer.
func WarmUp(ctx context.Context, address string) error {
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
