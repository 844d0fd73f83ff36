package process_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/linux/process"
)

// TestRun checks that a program gets a fixed environment and no shell, that its error contains its output, and that it
// ends with its context.
func TestRun(t *testing.T) {
	t.Setenv("BERTH_TEST_RUN", "inherited")
	if err := process.Run(t.Context(), os.Args[0], "-test.run=^TestRunChild$"); err != nil {
		t.Error(err)
	}
	err := process.Run(t.Context(), os.Args[0], "-test.no-such-flag;$HOME")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || !strings.Contains(err.Error(), "no-such-flag;$HOME") {
		t.Error(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := process.Run(ctx, os.Args[0], "-test.run=^TestRunChild$", "-test.count=1000000"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

// TestRunChild is a program.
func TestRunChild(t *testing.T) {
	if os.Getenv("BERTH_TEST_RUN") != "" && os.Getenv("HOME") == "" {
		t.Error("it has the environment of its parent")
	}
}
