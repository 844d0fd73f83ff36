package process_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/linux/process"
)

// childFlag is the action of a child of these tests: leave another child in its process group, or one in a separate
// session, which keeps its output open until its input ends.
const childFlag = "BERTH_TEST_PROCESS_CHILD"

// TestChild is a child.
func TestChild(t *testing.T) {
	does := os.Getenv(childFlag)
	if does == "" {
		return
	}
	if does == "waits" {
		_, _ = io.Copy(io.Discard, os.Stdin)
		return
	}
	const ready = 3
	syscall.CloseOnExec(ready)
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childFlag+"=waits")
	cmd.Stdin, cmd.Stdout = os.Stdin, os.Stdout
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: does == "leaves"}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_ = os.NewFile(ready, "ready").Close()
	_, _ = io.Copy(io.Discard, os.Stdin)
}

// started returns a child that has left another one, and whose input is open until the test ends.
func started(t *testing.T, does string) *process.Process {
	t.Helper()
	input, keep, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "-test.run=^TestChild$")
	cmd.Env = append(os.Environ(), childFlag+"="+does)
	cmd.Stdin, cmd.Stdout = input, &bytes.Buffer{}
	ready, says, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer ready.Close()
	cmd.ExtraFiles = []*os.File{says}
	p, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		t.Fatal(err)
	}
	_, _ = input.Close(), says.Close()
	if _, err := io.Copy(io.Discard, ready); err != nil { // until the child closes it
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = keep.Close()
		<-p.Done()
	})
	return p
}

// TestClearEndsInTime checks that Clear does not wait beyond its context for a process that left the process group and
// keeps the output open, and that the error contains the reason.
func TestClearEndsInTime(t *testing.T) {
	over := errors.New("the time is over")
	ctx, cancel := context.WithTimeoutCause(t.Context(), 500*time.Millisecond, over)
	defer cancel()
	if err := started(t, "leaves").Clear(ctx); !errors.Is(err, over) {
		t.Error(err)
	}
}

// TestClear checks that the whole process group is gone, including processes that the child left in it.
func TestClear(t *testing.T) {
	if err := process.Adopt(); err != nil {
		t.Fatal(err)
	}
	p := started(t, "stays")
	if err := p.Clear(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Kill(-p.PID(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Error(err)
	}
}
