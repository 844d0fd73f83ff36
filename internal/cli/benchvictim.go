package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
)

// mostVictimRate bounds the default rate on a large machine.
const mostVictimRate = 2000

// victimFlags adds the flags of a benchmark whose arms send single requests to one server. duration is the default load
// of one arm, and per names the CPUs for each of which the default rate is. Zero means not given if the default depends
// on --quick or the machine.
func victimFlags(cmd *cobra.Command, o *bench.LoadOptions, duration time.Duration, per string) {
	o.Pattern.Batch = 1
	flags := cmd.Flags()
	flags.StringVar(&o.Out, "out", "", "directory for the raw samples and summary.json")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 5, quick 3)")
	flags.DurationVar(&o.Duration, "duration", 0, fmt.Sprintf("load of one arm (default %s, quick 4s)", duration))
	flags.Float64Var(&o.Pattern.Rate, "rate", 0, fmt.Sprintf("requests per second (default %g for each %s, at most %d)", bench.DefaultVictimRate, per, mostVictimRate))
	flags.DurationVar(&o.Work, "work", bench.DefaultVictimWork, "CPU time of one request")
	flags.Uint64Var(&o.Pattern.Seed, "seed", 1, "seed of the arrivals")
}

// fillVictim sets flags of victimFlags that were not given, depending on --quick and the CPUs that the default rate is
// for, and refuses bad values.
func fillVictim(o *bench.LoadOptions, duration time.Duration, cpus int) error {
	reps := 5
	if o.Quick {
		reps, duration = 3, 4*time.Second
	}
	o.Repetitions, o.Duration = cmp.Or(o.Repetitions, reps), cmp.Or(o.Duration, duration)
	o.Pattern.Rate = cmp.Or(o.Pattern.Rate, min(bench.DefaultVictimRate*float64(cpus), mostVictimRate))
	if o.Work <= 0 || o.Work > load.MaxWork {
		return usageError(fmt.Errorf("--work %s: allowed: above 0, at most %s", o.Work, load.MaxWork))
	}
	if _, err := o.Pattern.Arrivals(o.Duration); err != nil {
		return usageError(err)
	}
	return nil
}
