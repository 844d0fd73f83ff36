package cli

import (
	"cmp"
	"errors"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
)

func newBenchLocality(g *globals) *cobra.Command {
	var o bench.LocalityOptions
	redis := false
	cmd := &cobra.Command{
		Use:   "locality",
		Short: "What moving pages to the CPUs' NUMA node costs, and with --redis what it gains",
		Long: `Has a process fill memory on the wrong NUMA node and moves it: by the mover, and
by a bare loop with the same calls. Then it measures requests of such a process
before, during and after a pass under a limit, beside a hog whose pages must stay.

With --redis it measures Redis (Debian's packages redis-server and redis-tools) with
its pages on the right node, on the wrong one, mixed, and mixed and moved.

It needs two NUMA nodes with CPUs and memory (else exit code 3). Where they are
emulated the mechanism is verified, the benefit is not measured.`,
		Example: `  berth bench locality --quick
  berth bench locality --out DIR
  berth bench locality --redis --keys 1000000`,
		Args: noArgs,
		RunE: formatted(g, func(cmd *cobra.Command, _ []string, format string) error {
			run := o
			if err := errors.Join(checkRuns(cmd, o.Repetitions, o.Limited), fillLocality(cmd.Flags(), &run)); err != nil {
				return err
			}
			return withPlace(cmd, g, func(root *hostfs.Root, home *demo.Home, machine bench.Machine) error {
				run.Place, run.Machine, run.Root, run.Progress = home.Place, machine, root, progressTo(cmd.ErrOrStderr())
				if redis {
					return measure(cmd, format, run, bench.RunRedis, bench.WriteRedisTable)
				}
				return measure(cmd, format, run, bench.RunLocality, bench.WriteLocalityTable)
			})
		}),
	}
	flags := cmd.Flags()
	flags.BoolVar(&o.Quick, "quick", false, "less memory, shorter passes, two repetitions")
	flags.StringVar(&o.Out, "out", "", "directory for the raw samples and summary.json")
	flags.IntVar(&o.Repetitions, "reps", 0, "repetitions (default 5, quick 2)")
	flags.DurationVar(&o.Limited, "duration", 0, "length of a pass under a limit (default 10s, quick 3s)")
	flags.IntVar(&o.MiB, "mib", 0, "memory of the loader (default 1024, quick 128)")
	flags.BoolVar(&redis, "redis", false, "measure Redis instead")
	flags.IntVar(&o.Redis.Keys, "keys", 0, "keys in Redis, of 4 KiB each (default 1000000, quick 100000)")
	flags.IntVar(&o.Redis.Requests, "requests", 0, "requests of one run of redis-benchmark (default 2000000, quick 100000)")
	return cmd
}

// fillLocality sets flags that were not given, depending on --quick, and refuses bad values.
func fillLocality(given *pflag.FlagSet, o *bench.LocalityOptions) error {
	reps, limited, mib, keys, requests := 5, 10*time.Second, 1024, 1_000_000, 2_000_000
	if o.Quick {
		reps, limited, mib, keys, requests = 2, 3*time.Second, 128, 100_000, 100_000
	}
	fillIn(given, "reps", &o.Repetitions, reps)
	fillIn(given, "mib", &o.MiB, mib)
	fillIn(given, "keys", &o.Redis.Keys, keys)
	fillIn(given, "requests", &o.Redis.Requests, requests)
	o.Limited = cmp.Or(o.Limited, limited)
	o.Window, o.Redis.Size, o.Redis.Clients = o.Limited, 4096, []int{500, 10_000}
	for flag, number := range map[string]int{"--mib": o.MiB, "--keys": o.Redis.Keys / 1000, "--requests": o.Redis.Requests / 1000} {
		if number < 1 || number > 1<<20 {
			return usageError(fmt.Errorf("%s: allowed: 1..1048576 MiB, 1000..1048576000 keys or requests", flag))
		}
	}
	return nil
}
