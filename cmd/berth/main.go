// Command berth gives CPU-sensitive workloads their place on one Linux host. It shows the machine, runs the node agent,
// explains what was applied and restores all original values.
package main

import (
	"context"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"

	"github.com/berth-project/berth/internal/cli"
)

// version and commit are set by the Makefile through -ldflags.
var (
	version = "dev"
	commit  = "" //nolint:gochecknoglobals // the linker writes it
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	program := cli.Program{Name: filepath.Base(os.Args[0]), Version: version, Commit: commit}
	code := cli.RunAs(ctx, program, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr})
	stop()
	os.Exit(code)
}
