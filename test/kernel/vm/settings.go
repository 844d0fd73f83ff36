package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/berth-project/berth/test/kernel"
)

// errSettings reports arguments of which vm settings can make nothing.
var errSettings = errors.New("vm settings wants the vmlinuz-RELEASE of a kernel, with its config-RELEASE beside it, and the file to write")

// recordSettings boots a kernel of any package on four CPUs and two NUMA nodes, and writes the recording of `berth
// topology --capture`. The guest has the configuration of the kernel as /boot has it on a host.
func recordSettings(ctx context.Context, args []string) error {
	flags := flag.NewFlagSet("vm settings", flag.ContinueOnError)
	arguments := flags.String("arguments", "", "more arguments of the kernel, separated by blanks")
	if err := flags.Parse(args); err != nil {
		return err
	}
	image := flags.Arg(0)
	release, named := strings.CutPrefix(filepath.Base(image), "vmlinuz-")
	if flags.NArg() != 2 || !named {
		return fmt.Errorf("%w: not %q", errSettings, flags.Args())
	}
	config := "config-" + release
	options, err := os.ReadFile(filepath.Join(filepath.Dir(image), config))
	if err != nil {
		return err
	}
	machine := kernel.Machine{Name: "vm-settings", Sockets: 2, Dies: 1, Cores: 2, Threads: 1, Nodes: 2, MiB: 1024}
	vm := kernel.VM{Machine: machine, Kernel: kernel.Kernel{Image: image}, Layout: "v2", Arguments: strings.Fields(*arguments)}
	content, err := capture(ctx, vm, func(guest *kernel.Guest) { guest.File("/boot/"+config, options) })
	if err != nil {
		return err
	}
	return os.WriteFile(flags.Arg(1), content, 0o644)
}
