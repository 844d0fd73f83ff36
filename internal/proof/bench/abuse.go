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

// aloneAtMost bounds how long an abuser runs under the limit alone.
const aloneAtMost = time.Minute

// runAbuse runs each abuser in turn under the agent and measures its mean use after its credit is spent: from the
// moment the quota is first back at the limit. Then it runs the same abuser under the limit alone.
func runAbuse(ctx context.Context, place Place, o AbuseOptions, progress func(string)) ([]Abuse, error) {
	if o.Measure <= 0 {
		return nil, nil
	}
	calls, err := o.callTimes(ctx, place)
	if err != nil {
		return nil, err
	}
	return o.each(func(a abuser) (Abuse, error) {
		progress(fmt.Sprintf("abuser %s", a.name))
		result, err := o.run(ctx, place, a, calls)
		if err != nil {
			return Abuse{}, err
		}
		progress(fmt.Sprintf("abuser %s, limit alone", a.name))
		result.Alone, err = o.alone(ctx, place, a)
		return result, err
	})
}

// each runs the named abusers in turn. An abuser whose quota the agent did not raise, or whose credit is not spent, has
// no result: the others run nevertheless, and the error says why it has none. Any other error ends the run.
func (o AbuseOptions) each(run func(abuser) (Abuse, error)) (results []Abuse, err error) {
	for _, a := range allAbusers() {
		if !slices.Contains(o.Abusers, a.name) {
			continue
		}
		result, failed := run(a)
		if failed == nil {
			results = append(results, result)
			continue
		}
		err = errors.Join(err, fmt.Errorf("abuser %s: %w", a.name, failed))
		if !isIdle(failed) {
			return nil, err
		}
	}
	return results, err
}

// missing returns the named abusers that have no result.
func (o AbuseOptions) missing(results []Abuse) []string {
	if o.Measure <= 0 {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(o.Abusers), func(name string) bool {
		return slices.ContainsFunc(results, func(a Abuse) bool { return a.Mode == name })
	})
}

// isIdle reports whether abusers have no result because they got less CPU time than they need, and for no other reason.
func isIdle(err error) bool {
	switch e := err.(type) { //nolint:errorlint // it looks at each error of the tree
	case interface{ Unwrap() []error }:
		return !slices.ContainsFunc(e.Unwrap(), func(one error) bool { return !isIdle(one) })
	case interface{ Unwrap() error }:
		return isIdle(e.Unwrap())
	default:
		return errors.Is(err, ErrNotSpent) || errors.Is(err, ErrNotRaised)
	}
}

// alone runs an abuser under its limit, without an agent: what the kernel's throttling lets through by itself. It
// returns nil for an abuser that burns only while its quota is raised.
func (o AbuseOptions) alone(ctx context.Context, place Place, a abuser) (alone *AbuseAlone, err error) {
	if a.mode == load.WhileRaised {
		return nil, nil
	}
	stage, err := OpenStage(place, "alone-"+a.name, o.Limit.Quota(Period), "hold")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, stage.Kill()) }()
	facts, err := o.facts(stage)
	if err != nil {
		return nil, err
	}
	a, _ = a.credited(o.CreditSeconds, facts) // the same rhythm
	o.Measure = min(o.Measure, aloneAtMost)
	result := Abuse{}
	err = o.burn(ctx, stage, a, &result, func(context.Context, *Stage, *Child) error { return nil })
	return &AbuseAlone{
		Seconds: result.Seconds, MeanCPUs: result.MeanCPUs, OverLimit: result.OverLimit,
		ExcessSeconds: result.ExcessSeconds, Looks: result.Looks,
	}, err
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
		Threshold: place.Threshold,
	}
	if err := o.burn(ctx, stage, a, &result, o.awaitSpent); err != nil {
		return Abuse{}, err
	}
	if facts, err = o.facts(stage); err != nil { // with the burst that the agent wrote
		return Abuse{}, err
	}
	if late, err := lateness(ctx, agent.Agent); err != nil {
		result.Unbounded = err.Error()
	} else {
		result.Bound = o.boundOf(facts, burst.PeriodSeconds, late, calls.Longest(a.calls))
	}
	if !a.strikes { // its rests are too short for a full credit
		result.Strikes = min(result.Strikes, 1)
	}
	result.Writes, err = agent.Writes()
	return result, err
}

// awaits waits until an abuser in a stage is to be measured.
type awaits func(context.Context, *Stage, *Child) error

// burn runs the abuser in the stage's group, and measures it once ready returns.
func (o AbuseOptions) burn(ctx context.Context, stage *Stage, a abuser, result *Abuse, ready awaits) (err error) {
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
	begin := time.Now()
	if err := ready(ctx, stage, burner); err != nil {
		return err
	}
	result.SpentSeconds = time.Since(begin).Seconds()
	return o.measure(ctx, stage, burner, result)
}

func (o AbuseOptions) measure(ctx context.Context, stage *Stage, burner *Child, result *Abuse) error {
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
	last, gap   time.Duration // when the last read began, and the longest time from there to the end of the next
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
// and ends after that of its last: a watcher that was interrupted in a read finds no use that was not there. A window
// that begins and ends between samples may have more use beyond the limit, at each end by the limit over the gap.
func (w *windows) add(used unit.CPUSeconds, before, after time.Duration) {
	w.most = max(w.most, float64(used-w.limit.Over(after))-w.floor)
	w.floor = min(w.floor, float64(used-w.limit.Over(before)))
	w.last, w.gap = before, max(w.gap, after-w.last)
	w.looks++
}

// stop ends the sampling and writes the figures to result.
func (w *windows) stop(result *Abuse) error {
	w.cancel()
	err := <-w.done
	result.ExcessSeconds, result.Looks, result.Strikes = w.most, w.looks, w.quotas.strikes(w.limit.Quota(Period))
	result.UnseenSeconds = 2 * float64(w.limit.Over(w.gap))
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
