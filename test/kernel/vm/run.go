package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

// longRun is how long a run of berth may print nothing: a benchmark prints its report at the end, and an hour of the
// guest takes this machine two or three.
const longRun = 12 * time.Hour

// runBerth boots our own kernel in a machine that the flags describe, and runs one berth command there.
func runBerth(ctx context.Context, args []string) error {
	vm, argv, err := parseRun(args)
	if err != nil {
		return err
	}
	if vm.Kernel, err = kernel.Own(ctx, os.Stderr); err != nil {
		return err
	}
	result, err := command(ctx, vm, job.Job{Name: "run", Dir: "/tmp", Argv: append([]string{"/bin/berth"}, argv...)})
	fmt.Print(result.Output)
	if err == nil && result.Code != 0 {
		return fmt.Errorf("berth %s: exit code %d", strings.Join(argv, " "), result.Code)
	}
	return err
}

// parseRun returns the machine of `vm run`, without a kernel, and the arguments of berth. The flags end at the first
// argument that is none.
func parseRun(args []string) (kernel.VM, []string, error) {
	flags := flag.NewFlagSet("vm run", flag.ContinueOnError)
	cpus := flags.Int("cpus", 0, "how many CPUs the machine has, in one L3; by default it has two NUMA nodes of two cores of two threads")
	counted := flags.Bool("counted", false, "the machine's clock counts instructions, so other work of this machine does not change the figures")
	if err := flags.Parse(args); err != nil {
		return kernel.VM{}, nil, err
	}
	if *cpus < 0 || *cpus > 64 { // CONFIG_NR_CPUS
		return kernel.VM{}, nil, fmt.Errorf("-cpus %d: 1 to 64", *cpus)
	}
	vm := kernel.VM{Machine: kernel.Machines()[0], Layout: "v2", Stride: 1, Quiet: longRun}
	if *cpus > 0 {
		vm.Machine = kernel.Wide(*cpus)
	}
	if *counted {
		vm.Machine.Counted, vm.Arguments = true, turns()
	}
	return vm, flags.Args(), nil
}

// turns returns the arguments of a kernel whose clock counts instructions. An emulated CPU runs until any CPU has a
// timer. With ticks at different times each CPU has a turn in a tick.
func turns() []string { return []string{"skew_tick=1"} }
