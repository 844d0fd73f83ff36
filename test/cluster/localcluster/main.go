// Program localcluster starts and ends the test cluster of this machine; see package local. It needs root, and the
// programs that `go run ./programs build` builds.
//
//	localcluster up      starts it, unless it is up, waits until everything is ready, and
//	                     prints the shell command that lets kubectl find it
//	localcluster vm      adds a node in a virtual machine, berth-vm: 20 CPUs, two NUMA nodes
//	localcluster down    ends it and leaves nothing
//
// The commands spawn and supervise are for localcluster itself.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-project/berth/test/cluster/local"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer stop()
	if err := run(ctx, append(os.Args[1:], "")[0]); err != nil {
		fmt.Fprintln(os.Stderr, "localcluster:", err)
		stop()
		os.Exit(1)
	}
}

func run(ctx context.Context, command string) error {
	switch command {
	case "up":
		if err := local.Up(ctx, os.Stderr); err != nil {
			return err
		}
		fmt.Printf("export KUBECONFIG=%s\n", local.Kubeconfig())
		return nil
	case "vm":
		return addVM(ctx)
	case "down":
		return errors.Join(removeVMs(ctx), local.Down(ctx, os.Stderr))
	case "spawn":
		return local.Spawn()
	case "supervise":
		return local.Supervise(ctx, os.Stdout)
	}
	return fmt.Errorf("usage: localcluster up | vm | down; not %q", command)
}
