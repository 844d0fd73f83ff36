// Command berth gives CPU-sensitive workloads their place on one Linux host: it
// shows the machine, runs the node agent, explains what was applied and puts
// everything back.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-project/berth/internal/cli"
)

// version is set by the Makefile through -ldflags.
var version = "dev"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, version)
	stop()
	os.Exit(code)
}
