package seeds

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// Options configures a run.
type Options struct {
	bench.Options

	Place bench.Place
	// Root is the root of the measured machine.
	Root *hostfs.Root
	// Names are the experiments to run, all if empty.
	Names []string
	// Duration is the load time of one arm.
	Duration time.Duration
	// Profile says why no host profile may be applied here, such as another profile on record, "" for no reason.
	Profile string
	// Note is called with what a user must know even if the run is killed or interrupted; it may be nil.
	Note func(string)
	// Open opens an experiment elsewhere than on this host, such as in pods of a cluster. Its error is bench.ErrMissing
	// where that place cannot have the experiment. If Open is nil, Run opens each experiment here.
	Open func(ctx context.Context, name string) (Opened, error)
}

// Fill sets Repetitions and Duration where they are 0, depending on Quick.
func (o *Options) Fill() {
	reps, duration := 5, 15*time.Second
	if o.Quick {
		reps, duration = 3, 5*time.Second
	}
	o.Repetitions, o.Duration = cmp.Or(o.Repetitions, reps), cmp.Or(o.Duration, duration)
}

// Arm is one arm of one repetition of an experiment.
type Arm struct {
	Experiment, Name string
	Repetition       int
	Duration         time.Duration
	// Seed is that of the arrivals of an open loop. All arms of a repetition have the same.
	Seed uint64
}

// Values are the results of one arm of one repetition.
type Values struct {
	// Of has each figure by its name, and Lacks says of other figures why they cannot be measured here.
	Of    map[string]float64
	Lacks map[string]string
	// Samples are the requests, for figures that are quantiles of them.
	Samples []load.Sample
	// Raw is the output of the program that measured, "" for none.
	Raw string
}

// ErrNothing reports that no experiment could be measured here.
var ErrNothing = errors.New("no experiment can be measured on this machine")

// Run measures the experiments and returns the report. Everything that it made is gone when it returns, also when ctx
// ends, which is an error. An experiment that this machine cannot have, or that fails, gets a reason. The report is
// complete also with an error: that of the failed experiments, or ErrNothing if this machine can have none. After an error
// that matches bench.ErrNotUndone no further experiment runs.
func Run(ctx context.Context, o Options) (*Report, error) {
	o.silence()
	if o.Out != "" {
		if err := os.MkdirAll(o.Out, 0o755); err != nil {
			return nil, fmt.Errorf("bench seeds: %w", err)
		}
	}
	machine, err := topology.Discover(o.Root.FS())
	if err != nil {
		return nil, fmt.Errorf("bench seeds: %w", err)
	}
	r := &Report{Machine: o.Machine, Repetitions: o.Repetitions, ArmSeconds: o.Duration.Seconds()}
	var missing, failed []error
	for _, e := range Experiments() {
		if len(o.Names) > 0 && !slices.Contains(o.Names, e.Name) {
			continue
		}
		measured, err := o.experiment(ctx, host{o, machine}, e)
		switch {
		case isMissing(err):
			measured.Why, missing = err.Error(), append(missing, err)
		case ctx.Err() != nil:
			return nil, fmt.Errorf("experiment %s: %w", e.Name, errors.Join(ctx.Err(), leftover(err)))
		case err != nil:
			measured.Why, failed = "it failed: "+err.Error(), append(failed, fmt.Errorf("experiment %s: %w", e.Name, err))
		}
		r.Experiments = append(r.Experiments, measured)
		if leftover(err) != nil {
			break // The others would measure a host that this one changed.
		}
	}
	err = errors.Join(append(failed, r.write(o.Out))...)
	if err == nil && len(missing) == len(r.Experiments) {
		err = errors.Join(append([]error{ErrNothing}, missing...)...)
	}
	return r, err
}

// silence sets the functions that are nil.
func (o *Options) silence() {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
}

// isMissing reports whether an error says that the machine lacks something, and the host is as before.
func isMissing(err error) bool {
	return leftover(err) == nil && (errors.Is(err, bench.ErrMissing) || errors.Is(err, kernel.ErrNotSupported))
}

// leftover returns an error that says that the host is not as before, nil for other errors.
func leftover(err error) error {
	if errors.Is(err, bench.ErrNotUndone) {
		return err
	}
	return nil
}

// experiment measures one experiment.
func (o Options) experiment(ctx context.Context, h host, e Experiment) (m Measured, err error) {
	m = newMeasured(e)
	open := o.Open
	switch {
	case open == nil && e.measure != nil:
		return e.measure(h, ctx, m)
	case open == nil:
		open = func(ctx context.Context, _ string) (Opened, error) { return e.open(h, ctx) }
	}
	opened, err := open(ctx, e.Name)
	if err != nil {
		return m, err
	}
	defer func() { err = errors.Join(err, opened.Close()) }()
	m.Ours = opened.Load()
	runs, err := o.repeat(ctx, e, opened.Run)
	if err != nil {
		return m, err
	}
	m.summarize(runs)
	return m, nil
}

// repetition has the values of one repetition, by arm.
type repetition map[string]Values

// repeat runs all arms in rotating order.
func (o Options) repeat(ctx context.Context, e Experiment, run func(context.Context, Arm) (Values, error)) ([]repetition, error) {
	var all []repetition
	for i := range o.Repetitions {
		values := repetition{}
		for j := range e.Arms {
			name := e.Arms[(i+j)%len(e.Arms)]
			o.Progress(fmt.Sprintf("%s: repetition %d of %d, %s", e.Name, i+1, o.Repetitions, name))
			v, err := run(ctx, Arm{Experiment: e.Name, Name: name, Repetition: i, Duration: o.Duration, Seed: uint64(i + 1)})
			if err != nil {
				return nil, fmt.Errorf("arm %s: %w", name, err)
			}
			if err := o.keep(e.Name, name, i, v); err != nil {
				return nil, err
			}
			values[name] = v
		}
		all = append(all, values)
	}
	return all, nil
}

// keep writes the raw data of an arm.
func (o Options) keep(experiment, arm string, i int, v Values) (err error) {
	if o.Out == "" {
		return nil
	}
	name := filepath.Join(o.Out, fmt.Sprintf("%s-run%02d-%s", experiment, i+1, strings.ReplaceAll(arm, " ", "-")))
	if v.Raw != "" {
		if err := os.WriteFile(name+".txt", []byte(v.Raw), 0o644); err != nil {
			return fmt.Errorf("raw data: %w", err)
		}
	}
	if len(v.Samples) == 0 {
		return nil
	}
	file, err := os.Create(name + ".csv")
	if err != nil {
		return fmt.Errorf("raw data: %w", err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	if err := load.WriteCSV(file, v.Samples); err != nil {
		return fmt.Errorf("raw data: %w", err)
	}
	return nil
}
