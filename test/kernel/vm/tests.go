package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"
	"time"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

// errNoTests reports that a command names no test.
var errNoTests = errors.New("vm test and vm bench want a package and some of its tests or benchmarks, in one round or more")

// originText describes the flag -kernel.
const originText = "our own kernel (own), the distribution's (distro), or the path of an image such as /boot/vmlinuz-5.10.0-46-cloud-amd64"

// runTests boots a machine and runs some live tests of one package there.
func runTests(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm test", flag.ContinueOnError)
	origin := flags.String("kernel", "own", originText)
	layout := flags.String("layout", "v2", "the cgroup layout")
	arguments := flags.String("arguments", "", "more arguments of the kernel, separated by blanks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errNoTests
	}
	vm := kernel.VM{Machine: kernel.Machines()[0], Layout: *layout, Arguments: strings.Fields(*arguments)}
	return printTests(ctx, vm, *origin, kernel.Cases{Package: flags.Arg(0), Tests: flags.Args()[1:]})
}

// runBenchmarks boots a machine whose clock counts instructions, and runs some benchmarks of one package there.
func runBenchmarks(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm bench", flag.ContinueOnError)
	origin := flags.String("kernel", "own", originText)
	rounds := flags.Int("rounds", 8, "how often a benchmark runs its loop")
	cores := flags.Int("cores", 0, "how many cores of two threads the machine has, in one L3; by default it has two NUMA nodes of two such cores")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 || *rounds < 1 {
		return errNoTests
	}
	if *cores < 0 || *cores > 32 { // CONFIG_NR_CPUS
		return fmt.Errorf("-cores %d: 1 to 32", *cores)
	}
	vm := kernel.VM{Machine: kernel.TwoNodes(3072), Layout: "v2", Quiet: time.Hour}
	if *cores > 0 {
		vm.Machine, vm.Arguments = kernel.Siblings(*cores), turns()
	}
	vm.Machine.Counted = true
	cases := kernel.Cases{Package: flags.Arg(0), Tests: flags.Args()[1:], Rounds: *rounds}
	return printTests(ctx, vm, *origin, cases)
}

// printTests runs tests in a VM with a kernel of an origin, and prints their output.
func printTests(ctx context.Context, vm kernel.VM, origin string, cases kernel.Cases) error {
	k, err := kernelOf(ctx, origin)
	if err != nil {
		return err
	}
	vm.Kernel, vm.Stride = k, 1
	result, err := testsIn(ctx, vm, cases, job.Job{Name: "tests"})
	fmt.Print(result.Output)
	if err == nil && result.Code != 0 {
		return fmt.Errorf("tests of %s: exit code %d", cases.Package, result.Code)
	}
	return err
}

// testsIn runs tests in a VM.
func testsIn(ctx context.Context, vm kernel.VM, cases kernel.Cases, j job.Job) (job.Result, error) {
	return inGuest(ctx, vm, j.Name, func(guest *kernel.Guest) error { return guest.TestsWith(ctx, cases, vm.Stride, j) })
}
