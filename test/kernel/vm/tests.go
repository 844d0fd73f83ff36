package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"strings"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

// errNoTests reports that a command names no test.
var errNoTests = errors.New("vm test wants a package and some of its tests")

// runTests boots a machine and runs some live tests of one package there.
func runTests(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm test", flag.ContinueOnError)
	origin := flags.String("kernel", "own", "our own kernel, or the distribution's")
	layout := flags.String("layout", "v2", "the cgroup layout")
	arguments := flags.String("arguments", "", "more arguments of the kernel, separated by blanks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if flags.NArg() < 2 {
		return errNoTests
	}
	k, err := kernelOf(ctx, *origin)
	if err != nil {
		return err
	}
	vm := kernel.VM{Machine: kernel.Machines()[0], Kernel: k, Layout: *layout, Stride: 1, Arguments: strings.Fields(*arguments)}
	result, err := testsIn(ctx, vm, kernel.Cases{Package: flags.Arg(0), Tests: flags.Args()[1:]}, job.Job{Name: "tests"})
	fmt.Print(result.Output)
	if err == nil && result.Code != 0 {
		return fmt.Errorf("tests of %s: exit code %d", flags.Arg(0), result.Code)
	}
	return err
}

// testsIn runs tests in a VM.
func testsIn(ctx context.Context, vm kernel.VM, cases kernel.Cases, j job.Job) (job.Result, error) {
	return inGuest(ctx, vm, j.Name, func(guest *kernel.Guest) error { return guest.TestsWith(ctx, cases, vm.Stride, j) })
}
