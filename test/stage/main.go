// Program stage runs one stage of `make test`, records its output and cost, and reports all stages at the end.
//
//	stage run DIR NAME COMMAND [ARG...]   runs a command; its line and its output go to DIR
//	stage report DIR                      prints the results of the stages in DIR, and fails if one is red
//
// A stage whose command failed is red. A stage that broke a law is also red, even if its tests passed in a second run.
// So is a run in which too many tests passed only in a second run. The cost of a stage is printed and does not affect
// the result: time and CPU seconds depend on the machine as much as on the change.
package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

var (
	errUsage = errors.New("usage: stage run DIR NAME COMMAND [ARG...], or stage report DIR")
	// errRed reports that a stage failed or broke a law, or that too many tests were unsteady.
	errRed = errors.New("red")
)

func main() {
	code, err := run(os.Args[1:], os.Stdout)
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string, out io.Writer) (code int, err error) {
	switch {
	case len(args) == 2 && args[0] == "report":
		return 0, report(args[1], out)
	case len(args) > 3 && args[0] == "run":
		return stage(args[1], args[2], args[3:], out)
	}
	return 2, errUsage
}

// stage runs a command, and returns its exit code.
func stage(dir, name string, argv []string, out io.Writer) (code int, err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return 1, err
	}
	log, err := os.Create(filepath.Join(dir, name+".log"))
	if err != nil {
		return 1, err
	}
	defer log.Close()
	start := time.Now()
	code, cpu, err := command(argv, io.MultiWriter(out, log))
	if err != nil {
		return 1, err
	}
	return code, line{name: name, wall: time.Since(start), cpu: cpu, code: code}.note(dir)
}

// afterwards is how long processes that a command left running may continue to write to its output.
const afterwards = 2 * time.Second

// command runs a command until it and all the processes that it left have ended, and returns their CPU time. It does
// not wait for a process that continues to run.
func command(argv []string, out io.Writer) (code int, cpu time.Duration, err error) {
	// An orphan becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, 0, fmt.Errorf("adopt orphans: %w", err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // The command gets the signal too, and reports how it ended.
	said, into, err := os.Pipe()
	if err != nil {
		return 0, 0, fmt.Errorf("output of %s: %w", argv[0], err)
	}
	defer said.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, into, into
	err = cmd.Start()
	into.Close()
	if err != nil {
		return 0, 0, err
	}
	copied := make(chan error, 1)
	go func() {
		_, err := io.Copy(out, said)
		copied <- err
	}()
	code, err = wait(cmd.Process.Pid)
	err = errors.Join(err, said.SetReadDeadline(time.Now().Add(afterwards)))
	if copyErr := <-copied; !errors.Is(copyErr, os.ErrDeadlineExceeded) {
		err = errors.Join(err, copyErr)
	}
	if err != nil {
		return 0, 0, err
	}
	var used unix.Rusage
	err = unix.Getrusage(unix.RUSAGE_CHILDREN, &used)
	return code, time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
}

// wait reaps all children until the command has ended, and then the other children that have ended.
func wait(command int) (code int, err error) {
	for ended := false; ; {
		var status unix.WaitStatus
		options := 0
		if ended {
			options = unix.WNOHANG
		}
		pid, err := unix.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD), ended && pid == 0:
			return code, nil
		case err != nil:
			return 0, fmt.Errorf("wait: %w", err)
		case pid == command:
			ended = true
			if code = status.ExitStatus(); status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
	}
}
