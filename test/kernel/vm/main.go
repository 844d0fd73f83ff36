// Program vm runs the test machines for make and developers: it names missing packages, fills the kernel cache and
// records the emulated machines for testdata.
//
//	vm deps [all]     names the Debian packages that are missing, on one line
//	vm build [all]    downloads the stock kernel if it is not in the cache; with all, also builds our own
//	vm newest         names the newest stock kernel, and fails if the tests boot an older one
//	vm record [DIR]   records every machine with `berth topology --capture` into DIR
//	vm settings [-arguments "..."] VMLINUZ FILE
//	                  records the settings of any kernel for testdata/kernels
//	vm run [-cpus N] [-counted] ARG...
//	                  runs `berth ARG...` on our own kernel with cgroup v2, and prints its output; with -cpus on CPUs
//	                  that share an L3, with -counted where the clock counts instructions
//	vm wide ARG...    is vm run -cpus 16
//	vm test [-kernel own|distro|VMLINUZ] [-layout v2] [-arguments "..."] PACKAGE TEST...
//	                  runs live tests of one package in a virtual machine, such as internal/cli TestLiveTop
//	vm bench [-kernel own|distro|VMLINUZ] [-rounds 8] [-cores N] PACKAGE BENCHMARK...
//	                  runs benchmarks of one package where the clock counts instructions: other work of this machine
//	                  does not change the figures
//	vm mems [-bytes 1GiB] [-kernel own|distro|VMLINUZ] [-json FILE]
//	                  shows what narrowing the memory nodes of a running group does, and what the agent does
//	vm pull [-cpus 2] [-hz 250] [-json FILE] [-- FLAG...]
//	                  shows how waiting threads get a CPU; the flags are those of test/kernel/pull
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/berth-project/berth/test/kernel"
	"github.com/berth-project/berth/test/kernel/job"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, append(os.Args[1:], "", "")); err != nil {
		fmt.Fprintln(os.Stderr, "vm:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, args []string) error {
	switch args[0] {
	case "deps":
		missing := kernel.Missing()
		if args[1] == "all" {
			missing = kernel.MissingForAll(ctx)
		}
		fmt.Println(strings.Join(missing, " "))
		return nil
	case "build":
		_, err := kernel.Kernels(ctx, os.Stderr, args[1] == "all")
		return err
	case "newest":
		return kernel.IsNewest(ctx)
	case "record":
		return record(ctx, args[1])
	case "settings":
		return recordSettings(ctx, os.Args[2:])
	case "run":
		return runBerth(ctx, os.Args[2:])
	case "wide":
		return runBerth(ctx, append([]string{"-cpus", "16"}, os.Args[2:]...))
	case "test":
		return runTests(ctx, os.Args[2:])
	case "bench":
		return runBenchmarks(ctx, os.Args[2:])
	case "mems":
		return showMems(ctx, os.Args[2:])
	case "pull":
		return showPull(ctx, os.Args[2:])
	}
	return fmt.Errorf("usage: vm deps [all] | build [all] | newest | record [DIR] | settings VMLINUZ FILE | run [-cpus N] [-counted] ARG... | wide ARG... | test [FLAG...] PACKAGE TEST... | bench [FLAG...] PACKAGE BENCHMARK... | mems [-bytes SIZE] | pull [-cpus N] [-hz N]; not %q", args[0])
}

// record boots each machine once and writes the recording of `berth topology --capture`.
func record(ctx context.Context, dir string) error {
	if dir == "" {
		dir = filepath.Join("testdata", "machines")
	}
	own, err := kernel.Own(ctx, os.Stderr)
	if err != nil {
		return err
	}
	for _, m := range kernel.Machines() {
		name := filepath.Join(dir, m.Name+".txtar")
		content, err := capture(ctx, kernel.VM{Machine: m, Kernel: own, Layout: "v2"})
		if err != nil {
			return fmt.Errorf("record %s: %w", m.Name, err)
		}
		if err := os.WriteFile(name, content, 0o644); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%s: %d bytes\n", name, len(content))
	}
	return nil
}

// capture boots one machine with what fill adds, and returns the recording.
func capture(ctx context.Context, vm kernel.VM, fill ...func(*kernel.Guest)) ([]byte, error) {
	const recording = "/tmp/machine.txtar"
	j := job.Job{
		Name: "capture", Dir: "/tmp", File: recording,
		Argv: []string{"/bin/berth", "topology", "--capture", recording},
	}
	got, err := command(ctx, vm, j, fill...)
	if err != nil {
		return nil, err
	}
	if got.Code != 0 || len(got.File) == 0 {
		return nil, fmt.Errorf("berth topology --capture: exit code %d\n%s", got.Code, got.Output)
	}
	return got.File, nil
}

// command boots a machine with the program and with what fill adds, and returns the result of one job.
func command(ctx context.Context, vm kernel.VM, j job.Job, fill ...func(*kernel.Guest)) (job.Result, error) {
	return inGuest(ctx, vm, j.Name, func(guest *kernel.Guest) error {
		for _, f := range fill {
			f(guest)
		}
		guest.Job(j)
		return guest.Program(ctx, "/bin/berth", "./cmd/berth")
	})
}

// inGuest boots a machine with a guest that fill has filled, and returns the result of the job of that name.
func inGuest(ctx context.Context, vm kernel.VM, name string, fill func(*kernel.Guest) error) (job.Result, error) {
	dir, err := os.MkdirTemp("", "berth-vm-")
	if err != nil {
		return job.Result{}, err
	}
	defer os.RemoveAll(dir)
	guest, err := kernel.NewGuest(ctx, ".", dir)
	if err != nil {
		return job.Result{}, err
	}
	if err := fill(guest); err != nil {
		return job.Result{}, err
	}
	if vm.Image, err = guest.Close(); err != nil {
		return job.Result{}, err
	}
	results, err := vm.Run(ctx)
	return results[name], err
}
