package bench

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// AbuseOptions configures the abuser scenario.
type AbuseOptions struct {
	Limit unit.CPUs
	// Threads is how many threads burn at once; with two or more the demand exceeds 1.5 × the limit on any machine with
	// as many CPUs.
	Threads int
	// CreditSeconds is cfsQuotaBurstPeriodSeconds: small, so that the credit is spent soon.
	CreditSeconds int
	// Measure is how long the mean is measured once the credit is spent; 0 runs nothing.
	Measure time.Duration
	// Abusers are names of AllAbuserNames.
	Abusers []string
}

// spendTimeout bounds how long the credit may last.
const spendTimeout = 3 * time.Minute

// runAbuse runs each abuser in turn under the agent and measures its mean use after its credit is spent: from the
// moment the quota is first back at the limit.
func runAbuse(ctx context.Context, place Place, o AbuseOptions, progress func(string)) ([]Abuse, error) {
	if o.Measure <= 0 {
		return nil, nil
	}
	calls, err := o.callTimes(ctx, place)
	if err != nil {
		return nil, err
	}
	var results []Abuse
	for _, a := range allAbusers() {
		if !slices.Contains(o.Abusers, a.name) {
			continue
		}
		progress(fmt.Sprintf("abuser %s", a.name))
		result, err := o.run(ctx, place, a, calls)
		if err != nil {
			return nil, fmt.Errorf("abuser %s: %w", a.name, err)
		}
		results = append(results, result)
	}
	return results, nil
}

func (o AbuseOptions) run(ctx context.Context, place Place, a abuser, calls load.CallTimes) (result Abuse, err error) {
	stage, err := OpenStage(place, "abuser-"+a.name, o.Limit.Quota(Period), "hold")
	if err != nil {
		return Abuse{}, err
	}
	// Kill both programs: a program beside an abuser may get no CPU time to end by itself.
	defer func() { err = errors.Join(err, stage.Kill()) }()
	facts, err := o.facts(stage)
	if err != nil {
		return Abuse{}, err
	}
	burst := DefaultBurst()
	a, burst.PeriodSeconds = a.credited(o.CreditSeconds, facts)
	agent, err := startBerth(ctx, burst, o.Limit, stage)
	if err != nil {
		return Abuse{}, err
	}
	defer func() { err = errors.Join(err, agent.Stop()) }()
	result = Abuse{
		Mode: a.name, LimitCPUs: float64(o.Limit), CreditSeconds: float64(policy(burst.PeriodSeconds).Capacity(facts.Limit())),
	}
	if err := o.burn(ctx, stage, a, &result); err != nil {
		return Abuse{}, err
	}
	if facts, err = o.facts(stage); err != nil { // with the burst that the agent wrote
		return Abuse{}, err
	}
	if late, known := lateness(ctx, agent.Agent); known {
		result.Bound = o.boundOf(facts, burst.PeriodSeconds, late, calls.Longest(a.calls))
	}
	result.Writes, err = agent.Writes()
	return result, err
}

// burn runs the abuser in the stage's group and measures it.
func (o AbuseOptions) burn(ctx context.Context, stage *Stage, a abuser, result *Abuse) (err error) {
	windows, err := watchWindows(ctx, stage.place, stage.Path(), o.Limit)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, windows.stop(result)) }()
	file, err := quotaFile(stage.place.Host, stage.Path())
	if err != nil {
		return err
	}
	burner, err := StartChild("load burn", o.args(a, file)...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, burner.Kill()) }()
	if err := stage.Group().Attach(burner.PID()); err != nil {
		return fmt.Errorf("attach: %w", err)
	}
	return o.measure(ctx, stage, burner, result)
}

func (o AbuseOptions) measure(ctx context.Context, stage *Stage, burner *Child, result *Abuse) error {
	begin := time.Now()
	if err := o.awaitSpent(ctx, stage, burner); err != nil {
		return err
	}
	result.SpentSeconds = time.Since(begin).Seconds()
	before, err := stage.Counters()
	if err != nil {
		return err
	}
	if err := load.Pause(ctx, o.Measure); err != nil {
		return err
	}
	after, err := stage.Counters()
	if err != nil {
		return err
	}
	result.Seconds = after.At.Sub(before.At).Seconds()
	result.MeanCPUs = after.CPU.Since(before.CPU).Duration().Seconds() / result.Seconds
	result.OverLimit = result.MeanCPUs / float64(o.Limit)
	return burner.Alive()
}

// windows measures by how much the use of a group exceeds its limit, over every window that begins and ends at one of
// its samples.
type windows struct {
	meter       *Meter
	limit       unit.CPUs
	floor, most float64 // CPU-seconds of use beyond the limit since the first sample
	looks       int
	quotas      quotas
	cancel      context.CancelFunc
	done        chan error
}

// A group's use is read every lookAtUse, and its quota at each looksAQuota of these looks. A quota stays at the limit for
// longer than that, until its group has earned a tenth of its credit.
const (
	lookAtUse   = time.Millisecond
	looksAQuota = 10
)

// watchWindows takes samples until stop is called or ctx ends.
func watchWindows(ctx context.Context, place Place, path string, limit unit.CPUs) (*windows, error) {
	meter, err := OpenMeter(place.Host, path)
	if err != nil {
		return nil, errors.Join(err, meter.Close())
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &windows{meter: meter, limit: limit, cancel: cancel, done: make(chan error, 1)}
	go func() { w.done <- w.watch(ctx) }()
	return w, nil
}

func (w *windows) watch(ctx context.Context) error {
	begin := time.Now()
	first, err := w.meter.reader.Usage()
	for err == nil && load.Pause(ctx, lookAtUse) == nil {
		var now unit.CPUTime
		before := time.Since(begin)
		if now, err = w.meter.reader.Usage(); err != nil {
			break
		}
		w.add(now.Since(first).Seconds(), before, time.Since(begin))
		if w.looks%looksAQuota == 1 {
			var b cgroup.Bandwidth
			b, err = w.meter.Bandwidth()
			w.quotas = w.quotas.add(b)
		}
	}
	if err != nil {
		return fmt.Errorf("use over windows: %w", err)
	}
	return nil
}

// add adds a sample that was read between two times since the first. A window begins before the read of its first sample
// and ends after that of its last: a watcher that was interrupted in a read finds no use that was not there.
func (w *windows) add(used unit.CPUSeconds, before, after time.Duration) {
	w.most = max(w.most, float64(used-w.limit.Over(after))-w.floor)
	w.floor = min(w.floor, float64(used-w.limit.Over(before)))
	w.looks++
}

// stop ends the sampling and writes the figures to result.
func (w *windows) stop(result *Abuse) error {
	w.cancel()
	err := <-w.done
	result.ExcessSeconds, result.Looks, result.Strikes = w.most, w.looks, w.quotas.strikes(w.limit.Quota(Period))
	return errors.Join(err, w.meter.Close())
}

// awaitSpent waits until the quota is back at the limit.
func (o AbuseOptions) awaitSpent(ctx context.Context, stage *Stage, burner *Child) error {
	spent := func() (bool, error) {
		b, err := stage.Bandwidth()
		return b.Limit() <= o.Limit, err
	}
	spending, cancel := context.WithTimeout(ctx, spendTimeout)
	defer cancel()
	err := Await(spending, spent, burner.Alive)
	if isLate(ctx, err) {
		return fmt.Errorf("after %s the quota still stands above the limit: %w", spendTimeout, ErrNotSpent)
	}
	return err
}

// ErrNotSpent reports that an abuser's credit lasted longer than it can.
var ErrNotSpent = errors.New("the credit is not spent")

func (o AbuseOptions) args(a abuser, file string) []string {
	return []string{
		"load", "burn", "--mode", string(a.mode), "--calls", string(a.calls), "--threads", strconv.Itoa(o.Threads),
		"--on", a.on.String(), "--off", a.off.String(),
		"--quota-file", file, "--above", strconv.FormatInt(int64(o.Limit.Quota(Period)), 10),
	}
}

// quotaFile returns the path of the group's quota on this host.
func quotaFile(host *cgroup.Host, path string) (string, error) {
	hierarchy, err := host.Hierarchy(cgroup.CPU)
	if err != nil {
		return "", fmt.Errorf("quota file: %w", err)
	}
	name := "cpu.max"
	if hierarchy.Version == 1 {
		name = "cpu.cfs_quota_us"
	}
	return host.Root().Join(hierarchy.Mount + "/" + path + "/" + name), nil
}
