package seeds

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// online measures a server beside hogs, as bench interference does.
func (h host) online(ctx context.Context, m Measured) (Measured, error) {
	o := bench.InterferenceOptions{Root: h.Root, LoadOptions: bench.LoadOptions{
		Options: h.under("online"), Place: h.Place, Duration: h.Duration, Work: bench.DefaultVictimWork,
		Pattern: load.Pattern{Rate: bench.DefaultVictimRate * float64(h.Machine.CPUs), Batch: 1, Seed: 1},
	}}
	r, err := bench.RunInterference(ctx, o)
	if err != nil {
		return m, fmt.Errorf("as bench interference: %w", err)
	}
	m.Ours = fmt.Sprintf("%.0f requests of %d us a second in an open loop, beside %d hogs (bench interference)", r.Setup.RequestsPerSec, r.Setup.WorkMicros, r.Setup.Hogs)
	m.Arms = nil
	for _, arm := range r.Arms {
		m.Arms = append(m.Arms, arm.Name)
	}
	for i := range m.Results {
		result := &m.Results[i]
		for _, arm := range r.Arms {
			value := map[string]*float64{"p50": arm.P50, "p95": arm.P95, "p99": arm.P99}[result.Name]
			ratio := ratioOf(r.Ratios, arm.Name, bench.Alone, result.Name, "all")
			result.Arms = append(result.Arms, ArmResult{arm.Name, value, ratio})
		}
	}
	m.judge()
	return m, nil
}

// redis measures Redis on local, remote and moved pages, as bench locality --redis does.
func (h host) redis(ctx context.Context, m Measured) (Measured, error) {
	o := bench.LocalityOptions{
		Options: h.under("redis"), Place: h.Place, Root: h.Root,
		Redis: RedisLoad(h.Quick),
	}
	r, err := bench.RunRedis(ctx, o)
	if err != nil {
		return m, fmt.Errorf("as bench locality --redis: %w", err)
	}
	m.Ours = fmt.Sprintf("%d keys, %d requests a run for all keys (bench locality --redis)", r.Load.Keys, r.Load.Requests)
	for i := range m.Results {
		result := &m.Results[i]
		metric, clients, _ := strings.Cut(result.Name, ", ")
		for _, arm := range redisArms() {
			window := clients + ", all keys"
			value := r.Median(arm, window, metric)
			ratio := ratioOf(r.Ratios, arm, bench.Mixed, metric, window)
			result.Arms = append(result.Arms, ArmResult{arm, value, ratio})
		}
	}
	m.judge()
	return m, nil
}

// RedisLoad returns the data set and the requests.
func RedisLoad(quick bool) bench.RedisLoad {
	l := bench.RedisLoad{Keys: 1_000_000, Size: 4096, Requests: 2_000_000, Clients: []int{500, 10_000}}
	if quick {
		l.Keys, l.Requests = 100_000, 100_000
	}
	return l
}

// redisArms begin with the reference.
func redisArms() []string {
	return []string{bench.Mixed, bench.MixedMoved, bench.AllLocal, bench.AllRemote, bench.MixedAgain}
}

// under are the options of a benchmark whose files are in a directory of their own.
func (h host) under(name string) bench.Options {
	o := h.Options.Options
	if o.Out != "" {
		o.Out = filepath.Join(o.Out, name)
	}
	progress := o.Progress
	o.Progress = func(step string) { progress(name + ": " + step) }
	return o
}

func ratioOf(lines []bench.RatioLine, arm, reference, quantile, window string) *load.Ratio {
	for _, l := range lines {
		if l.Arm == arm && l.Reference == reference && l.Quantile == quantile && l.Window == window {
			return l.Ratio
		}
	}
	return nil
}
