package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

// showPull boots a machine whose CPUs share an L3, traces there how waiting threads get a CPU, and prints the result of
// package pull. Arguments after the flags are flags of that program.
func showPull(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm pull", flag.ContinueOnError)
	cpus := flags.Int("cpus", 2, "how many CPUs the machine has, all emulated")
	hz := flags.Int("hz", 250, "ticks a second of the kernel")
	file := flags.String("json", filepath.Join("out", "pull.json"), "where the report is written")
	if err := flags.Parse(args); err != nil {
		return err
	}
	if *cpus < 2 || *cpus > 64 { // CONFIG_NR_CPUS
		return fmt.Errorf("-cpus %d: 2 to 64", *cpus)
	}
	k, err := kernel.OwnAt(ctx, os.Stderr, *hz)
	if err != nil {
		return err
	}
	result, err := pullIn(ctx, kernel.VM{Machine: kernel.Wide(*cpus), Kernel: k, Layout: "v2", Stride: 1}, flags.Args())
	fmt.Print(result.Output)
	if err != nil {
		return err
	}
	if result.Code != 0 || len(result.File) == 0 {
		return fmt.Errorf("pull: %w, exit code %d", errNoReport, result.Code)
	}
	if err := os.MkdirAll(filepath.Dir(*file), 0o755); err != nil {
		return err
	}
	return os.WriteFile(*file, result.File, 0o644)
}

// pullIn runs the program in a VM.
func pullIn(ctx context.Context, vm kernel.VM, args []string) (job.Result, error) {
	const report, berth, pull = "/tmp/pull.json", "/bin/berth", "/bin/pull"
	j := job.Job{Name: "pull", Dir: "/tmp", File: report, Argv: append(append([]string{pull, "--json", report}, args...), berth)}
	return inGuest(ctx, vm, j.Name, func(guest *kernel.Guest) error {
		if err := guest.Program(ctx, berth, "./cmd/berth"); err != nil {
			return err
		}
		if err := guest.Program(ctx, pull, "./test/kernel/pull"); err != nil {
			return err
		}
		guest.Job(j)
		return nil
	})
}
