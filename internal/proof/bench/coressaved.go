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
	// Noise is the median of Noise over the repetitions.
	Noise float64 `json:"noise"`
	Goals []Goal  `json:"goals"`
}

// Saved is the smallest limits of one repetition, in CPUs, and how they were found.
type Saved struct {
	QuotaOnly float64 `json:"quotaOnlyCPUs"`
	Berth     float64 `json:"berthCPUs"`
	// Noise is the p99 of the unlimited arm after the searches divided by that of the unlimited arm before, which is
	// the reference of all other arms.
	Noise  float64 `json:"noise"`
	Probes []Probe `json:"probes"`
}

// Probe is one arm with one limit.
type Probe struct {
	Arm       string  `json:"arm"`
	LimitCPUs float64 `json:"limitCPUs"`
	// P99 is the arm's p99 divided by the unlimited p99.
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
	for i := range o.Repetitions {
		saved, err := o.searchBoth(ctx, i)
		if err != nil {
			return nil, fmt.Errorf("cores saved: %w", err)
		}
		r.Repetitions = append(r.Repetitions, saved)
		quota, berth, noise = append(quota, saved.QuotaOnly), append(berth, saved.Berth), append(noise, saved.Noise)
	}
	r.QuotaOnly, r.Berth, r.Noise = load.Median(quota), load.Median(berth), load.Median(noise)
	r.Goals = []Goal{r.goal()}
	return r, WriteSummary(o.Out, r)
}

// goal has no verdict if the two unlimited arms differ by more than a fitting arm may.
func (r *SavedReport) goal() Goal {
	ratio := r.Berth / r.QuotaOnly
	goal := Goal{
		Goal:     "smallest limit with p99 <= 1.05 × unlimited: with Berth <= 0.5 × the limit only",
		Measured: fmt.Sprintf("%.2f (%.3f CPUs against %.3f)", ratio, r.Berth, r.QuotaOnly),
		Verdict:  VerdictOf(ratio <= goalSaved),
	}
	if r.Noise > goalP99 || r.Noise < 1/goalP99 {
		goal.Measured, goal.Verdict = goal.Measured+"; the machine is too noisy", Open
	}
	return goal
}

// noiseLine says how much two equal arms differ.
func (r *SavedReport) noiseLine() string {
	each := make([]float64, 0, len(r.Repetitions))
	for _, saved := range r.Repetitions {
		each = append(each, saved.Noise)
	}
	return fmt.Sprintf("noise of this machine: p99 of two arms without a limit %.3f (%.3f..%.3f)", r.Noise, slices.Min(each), slices.Max(each))
}

// searchBoth runs one repetition.
func (o BurstOptions) searchBoth(ctx context.Context, repetition int) (Saved, error) {
	arm, err := o.arm(repetition)
	if err != nil {
		return Saved{}, err
	}
	arm.Name = Unlimited
	o.Progress(fmt.Sprintf("repetition %d of %d, arm %s", repetition+1, o.Repetitions, arm.Name))
	reference, err := o.Run(ctx, arm)
	if err != nil {
		return Saved{}, fmt.Errorf("arm %s: %w", arm.Name, err)
	}
	var saved Saved
	limits := limitsAbove(unit.CPUs(o.Machine.CPUs), reference.meanCPUs())
	search := func(name string) (float64, error) {
		arm.Name = name
		limit, err := smallest(limits, func(limit unit.CPUs) (bool, error) {
			arm.Limit = limit
			o.Progress(fmt.Sprintf("repetition %d of %d, arm %s with a limit of %.3f", repetition+1, o.Repetitions, name, limit))
			probe, err := o.probe(ctx, arm, reference)
			saved.Probes = append(saved.Probes, probe)
			return probe.Fits, err
		})
		if err != nil {
			return 0, fmt.Errorf("arm %s: %w", name, err)
		}
		return float64(limit), nil
	}
	if saved.QuotaOnly, err = search(QuotaOnly); err != nil {
		return Saved{}, err
	}
	if saved.Berth, err = search(Berth); err != nil {
		return Saved{}, err
	}
	arm.Name, arm.Limit = Unlimited2, 0
	o.Progress(fmt.Sprintf("repetition %d of %d, arm %s", repetition+1, o.Repetitions, arm.Name))
	again, err := o.probe(ctx, arm, reference)
	if err != nil {
		return Saved{}, fmt.Errorf("arm %s: %w", arm.Name, err)
	}
	saved.Noise = again.P99
	return saved, nil
}

// probe runs one arm and compares it with the unlimited reference.
func (o BurstOptions) probe(ctx context.Context, arm Arm, reference Outcome) (Probe, error) {
	p := Probe{Arm: arm.Name, LimitCPUs: float64(arm.Limit)}
	outcome, err := o.Run(ctx, arm)
	if err != nil {
		return p, err
	}
	ratio, known := plainRatio(load.Pair{Arm: outcome.Samples, Reference: reference.Samples}, 0.99)
	if !known {
		return p, errNoP99
	}
	p.P99, p.MeanCPUs = ratio, float64(outcome.meanCPUs())
	p.Fits = ratio <= goalP99 && p.MeanCPUs <= p.LimitCPUs
	return p, nil
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
