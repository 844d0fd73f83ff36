// Program build fills the cache of the VM node: its kernel and its root image.
//
//	build          makes the missing parts and reports its progress on standard error
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"syscall"

	"github.com/berth-project/berth/test/cluster/vmnode"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := vmnode.Build(ctx, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "build:", err)
		stop()
		os.Exit(1)
	}
}
