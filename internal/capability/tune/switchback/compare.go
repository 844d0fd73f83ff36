package switchback

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/evidence"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/value/unit"
)

// A run is void when other machines took more than mostSteal of its CPU time, and at least leastSteal. The kernel
// counts in ticks of 10 ms: in a short run one tick is more than mostSteal, however little was stolen.
const (
	mostSteal  = 0.01
	leastSteal = unit.CPUTime(20 * time.Millisecond)
)

// Change is the change on trial.
type Change interface {
	// On applies the change. After an error the host is as before.
	On() error
	// Off rolls the change back.
	Off() error
}

// Options configures a trial and its verdict. All fields but Metric, Record and Progress are required.
type Options struct {
	// Command is the file of a program, and its arguments.
	Command []string
	// Metric finds the value in the output of the command: the last match of its only group, or of all of it. Nil means
	// the time of the run in seconds.
	Metric *regexp.Regexp
	// HigherIsBetter is true for a rate.
	HigherIsBetter bool
	// Seed is the seed of the coin.
	Seed uint64
	// Pause is the time before each run; For bounds the trial.
	Pause, For time.Duration
	// Host is the root of this machine's files.
	Host *hostfs.Root
	// Clock is monotonic.
	Clock func() time.Duration
	// Record receives a line of JSON for each run.
	Record io.Writer
	// Progress receives a line for people.
	Progress func(string)
}

// Run is one run of the command. Its JSON is a stable contract.
type Run struct {
	Pair int  `json:"pair"`
	With bool `json:"with"`
	// Value is the metric.
	Value   float64 `json:"value"`
	Seconds float64 `json:"seconds"`
	// CPUSeconds and Switches include children that the command waited for.
	CPUSeconds float64 `json:"cpuSeconds"`
	Switches   int64   `json:"switches"`
	// RemoteShare is the share of the pages allocated on the host during the run that came from a remote NUMA node.
	RemoteShare float64 `json:"remoteShare"`
	// Steal is the share of the host's CPU time that went to other machines.
	Steal float64 `json:"steal"`
	// Void is true when the pair does not count.
	Void bool `json:"void"`
}

// Result is the result of a trial.
type Result struct {
	evidence.Result
	Runs []Run
}

// Compare runs pairs until the evidence suffices, 60 pairs are complete or void, or the time is over. The change is off
// when Compare returns, or the error says why. From then on this process is the parent of processes that the command
// leaves running, as process.Adopt says.
func Compare(ctx context.Context, change Change, o Options) (Result, error) {
	rule := evidence.Standard()
	rule.HigherIsBetter = o.HigherIsBetter
	trial, err := evidence.New(rule)
	if err != nil {
		return Result{}, fmt.Errorf("compare: %w", err)
	}
	if err := process.Adopt(); err != nil {
		return Result{}, err
	}
	within, cancel := context.WithTimeoutCause(ctx, o.For, errOver)
	defer cancel()
	runs := []Run{}
	void := 0
	for pair := 0; trial.Verdict() == evidence.Undecided && void < rule.Most; pair++ {
		two, err := o.pair(within, change, pair)
		if errors.Is(err, errOver) {
			break
		}
		if err != nil {
			return Result{}, err
		}
		runs = append(runs, two[:]...)
		if two[0].Void {
			void++
			continue
		}
		with, without := two[0], two[1]
		if !with.With {
			with, without = without, with
		}
		if err := trial.Add(evidence.Pair{With: with.Value, Without: without.Value}); err != nil {
			return Result{}, fmt.Errorf("pair %d: %w", pair, err)
		}
	}
	result := Result{Result: trial.Result(), Runs: runs}
	if result.Verdict == evidence.Undecided {
		result.Verdict = evidence.Noisy
	}
	return result, nil
}

// pair makes the two runs of a pair, in the order that the coin decides.
func (o Options) pair(ctx context.Context, change Change, pair int) (two [2]Run, err error) {
	changeFirst, _ := evidence.Schedule(o.Seed, pair)
	for i := range two {
		with := (i == 0) == changeFirst
		if two[i], err = o.block(ctx, change, with); err != nil {
			return two, err
		}
		two[i].Pair, two[i].With = pair, with
	}
	void := two[0].Void || two[1].Void
	for i := range two {
		two[i].Void = void
		if err := o.record(two[i]); err != nil {
			return two, err
		}
	}
	return two, nil
}

// block makes one run, and rolls the change back after it.
func (o Options) block(ctx context.Context, change Change, with bool) (run Run, err error) {
	if err := context.Cause(ctx); err != nil {
		return Run{}, err //nolint:wrapcheck // Compare knows its own, the rest is the caller's
	}
	if with {
		if err := change.On(); err != nil {
			return Run{}, fmt.Errorf("bring the change about: %w", err)
		}
		defer func() {
			if off := change.Off(); off != nil {
				err = fmt.Errorf("take the change back: %w", errors.Join(off, lasting(err)))
			}
		}()
	}
	select {
	case <-ctx.Done():
		return Run{}, context.Cause(ctx) //nolint:wrapcheck // as above
	case <-time.After(o.Pause):
	}
	return o.measure(ctx)
}

// lasting drops the end of the time and an interrupt, which are no failures beside a real failure.
func lasting(err error) error {
	if errors.Is(err, errOver) || errors.Is(err, context.Canceled) {
		return nil
	}
	return err
}

// record writes a run to Progress and Record.
func (o Options) record(run Run) error {
	if o.Progress != nil {
		arm := "without"
		if run.With {
			arm = "with"
		}
		o.Progress(fmt.Sprintf("pair %d, %s: %.4g", run.Pair+1, arm, run.Value))
	}
	if o.Record == nil {
		return nil
	}
	if err := json.NewEncoder(o.Record).Encode(run); err != nil {
		return fmt.Errorf("record run of pair %d: %w", run.Pair, err)
	}
	return nil
}
