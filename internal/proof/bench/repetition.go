package bench

import (
	"errors"
	"fmt"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// repetitionWith is one repetition, with what each arm had beside its latencies.
type repetitionWith[B any] struct {
	Repetition

	beside map[string]B
}

// measureArms runs all arms in each repetition. In a repetition all arms have the same arrivals.
func measureArms[B any](o LoadOptions, arms []string, run func(arm string, arrivals []time.Duration) (Outcome, B, error)) ([]repetitionWith[B], error) {
	var all []repetitionWith[B]
	for i := range o.Repetitions {
		arrivals, err := o.arrivals(i)
		if err != nil {
			return nil, err
		}
		one := repetitionWith[B]{beside: map[string]B{}}
		one.Repetition, err = o.rotate(i, arms, func(arm string) (outcome Outcome, err error) {
			outcome, one.beside[arm], err = run(arm, arrivals)
			return outcome, err
		})
		if err != nil {
			return nil, err
		}
		all = append(all, one)
	}
	return all, nil
}

// pattern returns the pattern of a repetition: each repetition has its own seed.
func (o LoadOptions) pattern(repetition int) load.Pattern {
	pattern := o.Pattern
	pattern.Seed += uint64(repetition)
	return pattern
}

// arrivals draws the arrivals of a repetition.
func (o LoadOptions) arrivals(repetition int) ([]time.Duration, error) {
	arrivals, err := o.pattern(repetition).Arrivals(o.Duration)
	if err != nil {
		return nil, fmt.Errorf("arrivals: %w", err)
	}
	return arrivals, nil
}

// rotate runs all arms once and writes their samples. The order rotates with the repetition.
func (o LoadOptions) rotate(repetition int, arms []string, run func(arm string) (Outcome, error)) (Repetition, error) {
	outcomes := Repetition{}
	for i := range arms {
		arm := arms[(i+repetition)%len(arms)]
		o.Progress(fmt.Sprintf("repetition %d of %d, arm %s", repetition+1, o.Repetitions, arm))
		outcome, err := run(arm)
		if err != nil {
			return nil, fmt.Errorf("arm %s: %w", arm, err)
		}
		outcomes[arm] = outcome
		if err := o.write(repetition, arm, outcome); err != nil {
			return nil, err
		}
	}
	return outcomes, nil
}

// write writes the raw samples of an arm and of its neighbours.
func (o LoadOptions) write(repetition int, arm string, outcome Outcome) error {
	errs := []error{writeSamples(o.Out, repetition, arm, outcome.Samples)}
	for i, n := range outcome.Beside {
		errs = append(errs, writeSamples(o.Out, repetition, fmt.Sprintf("%s neighbour %d", arm, i+1), n.Samples))
	}
	return errors.Join(errs...)
}

// withNoise returns the outcomes, and for each repetition that supports it the p95 of the second arm alone divided by
// that of the first.
func withNoise[B any](all []repetitionWith[B]) (repetitions []Repetition, noise []float64) {
	for _, one := range all {
		repetitions = append(repetitions, one.Repetition)
		if ratio, ok := plainRatio(load.Pair{Arm: one.Repetition[AloneAgain].Samples, Reference: one.Repetition[Alone].Samples}, 0.95); ok {
			noise = append(noise, ratio)
		}
	}
	return repetitions, noise
}
