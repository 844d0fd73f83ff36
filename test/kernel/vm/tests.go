package main

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

// errNoTests reports that a command names no test.
var errNoTests = errors.New("vm test wants a package and some of its tests")

// runTests boots a machine and runs some live tests of one package there.
func runTests(ctx context.Context, args []string) error {
	if len(args) < 2 {
		return errNoTests
	}
	own, err := kernel.Own(ctx, os.Stderr)
	if err != nil {
		return err
	}
	vm := kernel.VM{Machine: kernel.Machines()[0], Kernel: own, Layout: "v2", Stride: 1}
	result, err := testsIn(ctx, vm, kernel.Cases{Package: args[0], Tests: args[1:]}, job.Job{Name: "tests"})
	fmt.Print(result.Output)
	if err == nil && result.Code != 0 {
		return fmt.Errorf("tests of %s: exit code %d", args[0], result.Code)
	}
	return err
}

// testsIn runs tests in a VM.
func testsIn(ctx context.Context, vm kernel.VM, cases kernel.Cases, j job.Job) (job.Result, error) {
	return inGuest(ctx, vm, j.Name, func(guest *kernel.Guest) error { return guest.TestsWith(ctx, cases, vm.Stride, j) })
}
