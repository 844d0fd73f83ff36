package bench

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// goalSaved bounds Berth's smallest limit as a part of the smallest limit without Berth.
const goalSaved = 0.5

// leastSaved is the number of repetitions that a verdict on the limits needs.
const leastSaved = 3

// limitSteps is how many limits are tried in each doubling.
const limitSteps = 4

// SavedReport says which limits suffice with and without Berth. Its JSON is a stable contract.
type SavedReport struct {
	Machine     Machine `json:"machine"`
	Setup       Setup   `json:"setup"`
	Repetitions []Saved `json:"repetitions"`
	// QuotaOnly and Berth are the medians over the repetitions, in CPUs.
	QuotaOnly float64 `json:"quotaOnlyCPUs"`
	Berth     float64 `json:"berthCPUs"`
	// Ratio is the mean limit with Berth divided by the mean limit without it; null with one repetition.
	Ratio *load.Ratio `json:"ratio"`
	// Noise is the median of Noise over the repetitions.
	Noise float64 `json:"noise"`
	Goals []Goal  `json:"goals"`
}

// Saved is the smallest limits of one repetition, in CPUs, and how they were found.
type Saved struct {
	QuotaOnly float64 `json:"quotaOnlyCPUs"`
	Berth     float64 `json:"berthCPUs"`
	// Noise is the p99 of the unlimited arm between the searches divided by that of the unlimited arm before them.
	Noise  float64 `json:"noise"`
	Probes []Probe `json:"probes"`
}

// Probe is one arm with one limit.
type Probe struct {
	Arm       string  `json:"arm"`
	LimitCPUs float64 `json:"limitCPUs"`
	// P99 is the arm's p99 divided by the p99 of the faster unlimited arm.
	P99      float64 `json:"p99Ratio"`
	MeanCPUs float64 `json:"meanCPUs"`
	// Fits is true if this limit suffices: the requests are as fast as without a limit, and the use is no more than the
	// limit, so that they stay fast.
	Fits bool `json:"fits"`
}

// errNoP99 reports that an arm served too few requests.
var errNoP99 = errors.New("too few requests for a p99: longer arms, or more or larger batches")

// RunCoresSaved finds, by bisection, the smallest limit whose p99 is that of no limit: with the limit only and with
// Berth, for the same arrivals in each repetition. It assumes that a larger limit is never slower.
func RunCoresSaved(ctx context.Context, o BurstOptions) (*SavedReport, error) {
	if err := o.prepare(); err != nil {
		return nil, err
	}
	o.Limit = 0 // each arm has its own limit
	r := &SavedReport{Machine: o.Machine, Setup: o.setup()}
	var quota, berth, noise []float64
	var ours, theirs []load.Share
	for i := range o.Repetitions {
		saved, err := o.searchBoth(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("cores saved: %w", err)
		}
		r.Repetitions = append(r.Repetitions, saved)
		quota, berth, noise = append(quota, saved.QuotaOnly), append(berth, saved.Berth), append(noise, saved.Noise)
		ours, theirs = append(ours, load.Share{Part: saved.Berth, Whole: 1}), append(theirs, load.Share{Part: saved.QuotaOnly, Whole: 1})
	}
	if ratio, ok := load.PairedShares(ours, theirs); ok {
		r.Ratio = &ratio
	}
	r.QuotaOnly, r.Berth, r.Noise = load.Median(quota), load.Median(berth), load.Median(noise)
	r.Goals = []Goal{r.goal()}
	return r, WriteSummary(o.Out, r)
}

// goal judges by the upper end of the interval. There is no verdict from fewer than three repetitions, or if the two
// unlimited arms differ by more than a fitting arm may.
func (r *SavedReport) goal() Goal {
	const goal = "smallest limit with p99 <= 1.05 × unlimited: with Berth <= 0.5 × the limit only"
	if r.Ratio == nil {
		return Goal{goal, fmt.Sprintf("%.3f CPUs against %.3f; %d repetitions wanted", r.Berth, r.QuotaOnly, leastSaved), Open}
	}
	measured := fmt.Sprintf("%.2f (95 %% %.2f..%.2f; %.3f CPUs against %.3f)", r.Ratio.Estimate, r.Ratio.Low, r.Ratio.High, r.Berth, r.QuotaOnly)
	switch {
	case len(r.Repetitions) < leastSaved:
		return Goal{goal, fmt.Sprintf("%s; %d repetitions wanted", measured, leastSaved), Open}
	case r.Noise > goalP99 || r.Noise < 1/goalP99:
		return Goal{goal, measured + "; the machine is too noisy", Open}
	default:
		return Goal{goal, measured, VerdictOf(r.Ratio.High <= goalSaved)}
	}
}

// noiseLine says how much two equal arms differ.
func (r *SavedReport) noiseLine() string {
	each := make([]float64, 0, len(r.Repetitions))
	for _, saved := range r.Repetitions {
		each = append(each, saved.Noise)
	}
	return fmt.Sprintf("noise of this machine: p99 of two arms without a limit %.3f (%.3f..%.3f)", r.Noise, slices.Min(each), slices.Max(each))
}

// searchBoth runs one repetition. The second unlimited arm runs between the searches, and both searches are judged by
// both unlimited arms: the first search repeats its judgement, and runs only arms that it did not need before.
func (o BurstOptions) searchBoth(ctx context.Context, repetition int) (saved Saved, err error) {
	arm, err := o.arm(repetition)
	if err != nil {
		return Saved{}, err
	}
	s := &search{options: o, arm: arm, repetition: repetition, outcomes: map[limited]Outcome{}}
	for _, step := range []func() error{
		func() error { return s.refer(ctx, Unlimited) },
		func() error { _, err := s.smallest(ctx, QuotaOnly); return err },
		func() error { return s.refer(ctx, Unlimited2) },
		func() (err error) { saved.QuotaOnly, err = s.smallest(ctx, QuotaOnly); return err },
		func() (err error) { saved.Berth, err = s.smallest(ctx, Berth); return err },
		func() (err error) { saved.Noise, err = slowdown(s.references[1], s.references[:1]); return err },
		func() (err error) { saved.Probes, err = s.probes(); return err },
	} {
		if err := step(); err != nil {
			return Saved{}, err
		}
	}
	return saved, nil
}

// search is one repetition of the search for limits.
type search struct {
	options    BurstOptions
	arm        Arm
	repetition int
	// references are the unlimited arms so far.
	references []Outcome
	// outcomes are those of the arms with a limit, which ran in this order.
	outcomes map[limited]Outcome
	order    []limited
}

// limited is an arm with a limit.
type limited struct {
	name  string
	limit unit.CPUs
}

// refer runs an arm without a limit.
func (s *search) refer(ctx context.Context, name string) error {
	outcome, err := s.run(ctx, limited{name, 0}, "")
	s.references = append(s.references, outcome)
	return err
}

func (s *search) run(ctx context.Context, l limited, with string) (Outcome, error) {
	arm := s.arm
	arm.Name, arm.Limit = l.name, l.limit
	s.options.Progress(fmt.Sprintf("repetition %d of %d, arm %s%s", s.repetition+1, s.options.Repetitions, l.name, with))
	outcome, err := s.options.Run(ctx, arm)
	if err != nil {
		return Outcome{}, fmt.Errorf("arm %s%s: %w", l.name, with, err)
	}
	return outcome, nil
}

// smallest searches for the smallest limit of an arm that fits.
func (s *search) smallest(ctx context.Context, name string) (float64, error) {
	limits := limitsAbove(unit.CPUs(s.options.Machine.CPUs), s.references[0].meanCPUs())
	limit, err := smallest(limits, func(limit unit.CPUs) (bool, error) {
		l := limited{name, limit}
		if _, ran := s.outcomes[l]; !ran {
			outcome, err := s.run(ctx, l, fmt.Sprintf(" with a limit of %.3f", limit))
			if err != nil {
				return false, err
			}
			s.outcomes[l], s.order = outcome, append(s.order, l)
		}
		p, err := s.probe(l)
		return p.Fits, err
	})
	return float64(limit), err
}

// probe judges an arm that ran.
func (s *search) probe(l limited) (Probe, error) {
	outcome := s.outcomes[l]
	ratio, err := slowdown(outcome, s.references)
	if err != nil {
		return Probe{}, fmt.Errorf("arm %s: %w", l.name, err)
	}
	p := Probe{Arm: l.name, LimitCPUs: float64(l.limit), P99: ratio, MeanCPUs: float64(outcome.meanCPUs())}
	p.Fits = ratio <= goalP99 && p.MeanCPUs <= p.LimitCPUs
	return p, nil
}

// probes judges all arms that ran.
func (s *search) probes() ([]Probe, error) {
	probes := make([]Probe, 0, len(s.order))
	for _, l := range s.order {
		p, err := s.probe(l)
		if err != nil {
			return nil, err
		}
		probes = append(probes, p)
	}
	return probes, nil
}

// slowdown returns the p99 of an arm divided by that of the fastest reference: a reference that the machine disturbed is
// slow, and would make a limit look sufficient. It is the paired median, or the ratio of all samples with too few
// stretches.
func slowdown(arm Outcome, references []Outcome) (float64, error) {
	most := 0.0
	for _, reference := range references {
		pair := load.Pair{Arm: arm.Samples, Reference: reference.Samples}
		ratio, known := plainRatio(pair, 0.99)
		if !known {
			return 0, errNoP99
		}
		if median, ok := load.PairedMedian([]load.Pair{pair}, 0.99); ok {
			ratio = median.Estimate
		}
		most = max(most, ratio)
	}
	return most, nil
}

// limitsAbove returns the limits to try, ascending: the whole machine, and steps down to the mean use, below which no
// credit lasts.
func limitsAbove(machine, mean unit.CPUs) []unit.CPUs {
	const least = 0.01
	var limits []unit.CPUs
	for i := 0; ; i++ {
		limit := machine * unit.CPUs(math.Pow(2, -float64(i)/limitSteps))
		if i > 0 && limit < max(mean, least) {
			break
		}
		limits = append(limits, limit)
	}
	slices.Reverse(limits)
	return limits
}

// smallest returns the first of the ascending limits that fits. The last limit is the whole machine, that is, no limit:
// it fits without a test.
func smallest(limits []unit.CPUs, fits func(unit.CPUs) (bool, error)) (unit.CPUs, error) {
	low, high := 0, len(limits)-1
	for low < high {
		middle := (low + high) / 2
		ok, err := fits(limits[middle])
		switch {
		case err != nil:
			return 0, err
		case ok:
			high = middle
		default:
			low = middle + 1
		}
	}
	return limits[high], nil
}

// meanCPUs returns the mean use under load.
func (o Outcome) meanCPUs() unit.CPUs {
	if o.Elapsed <= 0 {
		return 0
	}
	return unit.CPUs(o.CPU.Seconds() / o.Elapsed.Seconds())
}
