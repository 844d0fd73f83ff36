package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"runtime"
	"time"

	"golang.org/x/sync/errgroup"
	v1 "k8s.io/api/core/v1"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	// raiseLimit is how long the agent has to raise the quota: it averages the CPU use of the machine over ten seconds.
	raiseLimit = 15 * time.Second
	// quiet is how long a server is idle before its load.
	quiet = 2 * time.Second
	// lookEvery is the interval at which the quota is read under load.
	lookEvery = 500 * time.Millisecond
)

// podOutcome is one arm of one repetition, for container and pod, because both groups have a quota.
type podOutcome struct {
	Arm                string  `json:"arm"`
	ContainerCPUs      float64 `json:"containerMeanCPUs"`
	ContainerThrottled uint64  `json:"containerThrottledPeriods"`
	ContainerPeriods   uint64  `json:"containerPeriods"`
	PodCPUs            float64 `json:"podMeanCPUs"`
	PodThrottled       uint64  `json:"podThrottledPeriods"`
	PodPeriods         uint64  `json:"podPeriods"`
	// LowestQuota and HighestQuota, in CPUs, are the extremes of the container's quota under load. PodQuota is the
	// pod's quota at the start of the load; 0 for none.
	LowestQuota  float64 `json:"lowestContainerQuotaCPUs"`
	HighestQuota float64 `json:"highestContainerQuotaCPUs"`
	PodQuota     float64 `json:"podQuotaCPUs"`
	// NodeUse is the mean CPU use of the machine under load, 0 to 1, including the load itself.
	NodeUse float64 `json:"nodeUse"`
}

// meters are the groups of one server.
type meters struct {
	container, pod *bench.Meter
	// group is the container's group.
	group string
}

// arm runs one server as a pod, sends it the arrivals and removes it.
func (b *benchmark) arm(ctx context.Context, a bench.Arm) (outcome bench.Outcome, err error) {
	if a.Name == bench.Peer {
		defer func() { err = errors.Join(err, b.agentsBack()) }() //nolint:contextcheck // also after ctx ended
		if err := b.agents(ctx, patchPaused, true); err != nil {
			return bench.Outcome{}, err
		}
	}
	defer func() { err = errors.Join(err, b.gone(server)) }() //nolint:contextcheck // also after ctx ended
	pod, err := b.serve(ctx, a)
	if err != nil {
		return bench.Outcome{}, err
	}
	m, err := openMeters(b.host, pod)
	if err != nil {
		return bench.Outcome{}, err
	}
	defer func() { err = errors.Join(err, m.container.Close(), m.pod.Close()) }()
	address := pod.Status.PodIP + ":8080"
	if err := answers(ctx, address); err != nil {
		return bench.Outcome{}, err
	}
	control, err := b.control(ctx, a, m)
	if err != nil {
		return bench.Outcome{}, err
	}
	defer func() { err = errors.Join(err, control.Stop()) }()
	if err := load.Pause(ctx, quiet); err != nil {
		return bench.Outcome{}, err
	}
	before, err := control.Writes()
	if err != nil {
		return bench.Outcome{}, err
	}
	if outcome, err = b.load(ctx, a, address, m); err != nil {
		return bench.Outcome{}, err
	}
	outcome.Writes, err = control.Writes()
	outcome.WritesUnderLoad = outcome.Writes - before
	return outcome, err
}

// control returns the controller of the running server's quota: the agents of the cluster or the peer.
func (b *benchmark) control(ctx context.Context, a bench.Arm, m meters) (bench.Control, error) {
	switch a.Name {
	case bench.Peer:
		return b.peer.Start(ctx, m.group)
	case bench.Berth:
		if err := raised(ctx, a.Limit, m.container); err != nil {
			return nil, err
		}
	}
	return counted(func() int { return writes(ctx) }), nil
}

// counted represents the agents of the cluster, which count their writes.
type counted func() int

// Writes implements bench.Control.
func (c counted) Writes() (int, error) { return c(), nil }

// Stop implements bench.Control. It does nothing, because the agents stay.
func (counted) Stop() error { return nil }

// load sends the arrivals and records the figures of both groups in that time.
func (b *benchmark) load(ctx context.Context, a bench.Arm, address string, m meters) (bench.Outcome, error) {
	p := podOutcome{Arm: a.Name}
	before, err := m.pod.Counters()
	if err != nil {
		return bench.Outcome{}, err
	}
	quota, err := m.pod.Bandwidth()
	if err != nil {
		return bench.Outcome{}, err
	}
	used := busy()
	watching, stop := context.WithCancel(ctx)
	var watcher errgroup.Group
	watcher.Go(func() error { return p.watch(watching, m.container) })
	outcome, err := m.container.Load(ctx, load.Generator{Address: address, Work: a.Work}, a.Arrivals)
	stop()
	if err := errors.Join(err, watcher.Wait()); err != nil {
		return bench.Outcome{}, err
	}
	after, err := m.pod.Counters()
	if err != nil {
		return bench.Outcome{}, err
	}
	p.NodeUse = (busy() - used) / outcome.Elapsed.Seconds() / float64(runtime.NumCPU())
	p.ContainerCPUs = outcome.CPU.Seconds() / outcome.Elapsed.Seconds()
	p.ContainerThrottled, p.ContainerPeriods = outcome.Throttled, outcome.Periods
	p.PodCPUs = after.CPU.Since(before.CPU).Duration().Seconds() / after.At.Sub(before.At).Seconds()
	p.PodThrottled, p.PodPeriods = after.Throttled-before.Throttled, after.Periods-before.Periods
	p.PodQuota = granted(quota.Limit(), quota.Quota)
	b.pods = append(b.pods, p)
	return outcome, nil
}

// add adds another outcome's counters and means; the pod's quota is that of the last outcome.
func (p *podOutcome) add(o podOutcome) {
	p.ContainerCPUs += o.ContainerCPUs
	p.ContainerThrottled += o.ContainerThrottled
	p.ContainerPeriods += o.ContainerPeriods
	p.PodCPUs += o.PodCPUs
	p.PodThrottled += o.PodThrottled
	p.PodPeriods += o.PodPeriods
	p.PodQuota = o.PodQuota
	p.NodeUse += o.NodeUse
}

// granted returns a quota in CPUs, 0 for none.
func granted(limit unit.CPUs, quota unit.Micros) float64 {
	if quota == unit.NoLimit {
		return 0
	}
	return float64(limit)
}

// watch reads the container's quota until ctx ends.
func (p *podOutcome) watch(ctx context.Context, m *bench.Meter) error {
	for first := true; ; first = false {
		is, err := m.Bandwidth()
		if err != nil {
			return fmt.Errorf("watch the quota: %w", err)
		}
		now := granted(is.Limit(), is.Quota)
		if first {
			p.LowestQuota = now
		}
		p.LowestQuota, p.HighestQuota = min(p.LowestQuota, now), max(p.HighestQuota, now)
		select {
		case <-time.After(lookEvery):
		case <-ctx.Done():
			return nil
		}
	}
}

// ceiling returns the quota that the default policy permits at most, less the few microseconds by which the agent stays
// below it.
func ceiling(limit unit.CPUs) unit.CPUs {
	return limit*unit.CPUs(bench.DefaultBurst().QuotaPercent)/100 - 0.001
}

// raised waits until the quota has reached its ceiling. It returns no error if the quota stays below: the machine is
// busy, and the notes report that.
func raised(ctx context.Context, limit unit.CPUs, m *bench.Meter) error {
	for end := time.Now().Add(raiseLimit); time.Now().Before(end); {
		is, err := m.Bandwidth()
		if err != nil {
			return err
		}
		if is.Limit() >= ceiling(limit) {
			return nil
		}
		if err := load.Pause(ctx, lookEvery); err != nil {
			return err
		}
	}
	return nil
}

// answers waits until the server answers, and warms it up.
func answers(ctx context.Context, address string) error {
	for end := time.Now().Add(runLimit); ; {
		err := bench.WarmUp(ctx, address)
		if err == nil || time.Now().After(end) {
			return err
		}
		if err := load.Pause(ctx, 100*time.Millisecond); err != nil {
			return err
		}
	}
}

// openMeters opens the groups of a pod of one container.
func openMeters(host *cgroup.Host, pod *v1.Pod) (m meters, err error) {
	name, err := group(pod)
	if err != nil {
		return m, err
	}
	m.group = name
	if m.container, err = bench.OpenMeter(host, name); err != nil {
		return m, err
	}
	if m.pod, err = bench.OpenMeter(host, path.Dir(name)); err != nil {
		return m, errors.Join(err, m.container.Close())
	}
	return m, nil
}
