package main

import (
	"os"
	"os/signal"
	"syscall"
	"testing"
)

// TestUntilStopped checks that each termination signal ends the context rather than the process, which has to stop a
// trace. Under nohup the run must outlive its terminal.
func TestUntilStopped(t *testing.T) { //nolint:paralleltest // signals are the process's
	begun := make(chan os.Signal, 1)
	signal.Notify(begun, syscall.SIGHUP) // the tests themselves may run under nohup
	signal.Stop(begun)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		ctx, stop := untilStopped(t.Context())
		if err := syscall.Kill(syscall.Getpid(), sig); err != nil {
			t.Error(err)
		}
		<-ctx.Done()
		stop()
	}
	signal.Ignore(syscall.SIGHUP)
	defer signal.Reset(syscall.SIGHUP)
	_, stop := untilStopped(t.Context())
	defer stop()
	if !signal.Ignored(syscall.SIGHUP) {
		t.Error("under nohup the end of the terminal ends the run")
	}
}
