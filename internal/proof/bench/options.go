package bench

import (
	"fmt"
	"os"
	"time"

	"github.com/berth-project/berth/internal/proof/load"
)

// Options are the options that all benchmarks of arms have.
type Options struct {
	Machine Machine
	// Repetitions is how often every arm runs. An interval needs at least 2, a verdict 3.
	Repetitions int
	Quick       bool
	// Out is the directory for raw data, logs and the summary; empty means none.
	Out string
	// Progress is called with the current step; it may be nil.
	Progress func(string) `json:"-"`
}

// LoadOptions are the options of a benchmark whose arms serve the same requests.
type LoadOptions struct {
	Options

	Place Place
	// Pattern says when requests arrive; Work is the CPU time of each.
	Pattern load.Pattern
	Work    time.Duration
	// Duration is how long one arm is under load.
	Duration time.Duration
}

// open sets the default of Progress and makes the directory of a benchmark.
func (o *Options) open(benchmark string) error {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	if o.Out == "" {
		return nil
	}
	if err := os.MkdirAll(o.Out, 0o755); err != nil {
		return fmt.Errorf("bench %s: %w", benchmark, err)
	}
	return nil
}
