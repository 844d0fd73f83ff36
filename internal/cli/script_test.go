package cli_test

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/berth-project/berth/internal/cli"
)

// TestMain lets the test binary act as the program: scripts run it as "berth", and an apply starts it again to keep the
// deadline. As "berthed" it is the command of berth run.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "tune" && os.Args[2] == "deadline" {
		berth()
	}
	testscript.Main(m, map[string]func(){"berth": berth, "berthed": berthed, "kubectl-berth": plugin, "balancer": balancer})
}

func berth() {
	ctx, stop := signal.NotifyContext(context.Background(), //nolint:forbidigo // this is a main, not a test
		os.Interrupt, syscall.SIGTERM)
	code := cli.Run(ctx, os.Args[1:], cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}, "test")
	stop()
	os.Exit(code)
}

// plugin runs the program as kubectl starts it.
func plugin() {
	p := cli.Program{Name: filepath.Base(os.Args[0]), Version: "test", Commit: "0123abc"}
	os.Exit(cli.RunAs(context.Background(), p, os.Args[1:], //nolint:forbidigo // this is a main, not a test
		cli.Streams{In: os.Stdin, Out: os.Stdout, Err: os.Stderr}))
}

// TestScripts runs the commands that users type, one scenario per file, and checks their exit codes.
func TestScripts(t *testing.T) {
	machines, err := filepath.Abs("../../testdata/machines")
	if err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Setup: func(e *testscript.Env) error {
			e.Setenv("M", machines)
			e.Setenv("K", filepath.Join(filepath.Dir(machines), "kernels"))
			return nil
		},
		Dir:  "testdata/script",
		Cmds: map[string]func(*testscript.TestScript, bool, []string){"exits": exits},
		Condition: func(cond string) (bool, error) {
			if cond == "root" {
				return os.Geteuid() == 0, nil
			}
			return false, errors.New("unknown condition")
		},
	})
}

// exits CODE PROGRAM ARGS... runs a program and checks its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE PROGRAM [ARGS...]")
	}
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	got := 0
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit):
		got = exit.ExitCode()
	case err != nil:
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code %d, want %d", got, want)
	}
}
