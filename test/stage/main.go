// Program stage runs one stage of `make test`, notes what it cost, and holds it to its budget.
//
//	stage FILE NAME SECONDS COMMAND [ARG...]   runs a command and adds its line to FILE
//	stage FILE AGAIN                           prints the table, and fails if a stage is over
//
// AGAIN is the directory where tools/suite.sh notes the tests that ran twice. The table has them
// below it.
//
// The budget is CPU time: what all processes that the command started have computed, those that
// left it too (a cluster's servers, virtual machines). It is a budget of work. Waiting costs
// nothing, and a load beside the tests, which makes them slower, changes it little; another
// repetition, pod or boot is what spends it.
package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"
)

// errOver means that a stage computed for longer than it may.
var errOver = errors.New("over budget")

func main() {
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "stage:", err)
		code = max(code, 1)
	}
	os.Exit(code)
}

func run(args []string) (code int, err error) {
	switch {
	case len(args) == 2:
		return 0, errors.Join(table(args[0]), again(args[1]))
	case len(args) < 4:
		return 2, errors.New("usage: stage FILE AGAIN, or stage FILE NAME SECONDS COMMAND [ARG...]")
	}
	budget, err := strconv.Atoi(args[2])
	if err != nil {
		return 2, fmt.Errorf("budget of %s: %w", args[1], err)
	}
	start := time.Now()
	code, cpu, err := command(args[3:])
	if err != nil {
		return 1, err
	}
	result := "ok"
	if code != 0 {
		result = "failed"
	}
	return code, note(args[0], line{
		name: args[1], wall: time.Since(start), cpu: cpu, budget: time.Duration(budget) * time.Second, result: result,
	})
}

// command runs a command until it and all that it left behind have ended, and returns what they
// computed.
func command(argv []string) (code int, cpu time.Duration, err error) {
	// Whoever loses its parent becomes a child of this process.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, 0, fmt.Errorf("adopt orphans: %w", err)
	}
	signal.Notify(make(chan os.Signal, 1), syscall.SIGINT) // The command has it too, and says how it ended.
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	for ended := false; ; {
		var status unix.WaitStatus
		options := 0
		if ended {
			options = unix.WNOHANG // Its orphans that have ended; one that goes on is not waited for.
		}
		pid, err := unix.Wait4(-1, &status, options, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case errors.Is(err, unix.ECHILD), ended && pid == 0:
			var used unix.Rusage
			err := unix.Getrusage(unix.RUSAGE_CHILDREN, &used)
			return code, time.Duration(used.Utime.Nano() + used.Stime.Nano()), err
		case err != nil:
			return 0, 0, fmt.Errorf("wait: %w", err)
		case pid == cmd.Process.Pid:
			ended = true
			if code = status.ExitStatus(); status.Signaled() {
				code = 128 + int(status.Signal())
			}
		}
	}
}

// line is a line of the table.
type line struct {
	name              string
	wall, cpu, budget time.Duration
	result            string
}

func (l line) over() bool { return l.cpu > l.budget }

// note adds a line to the file, which stages beside each other may do at once.
func note(name string, l line) error {
	file, err := os.OpenFile(name, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, "%s %d %d %d %s\n", l.name, l.wall, l.cpu, l.budget, l.result)
	return errors.Join(err, file.Close())
}

// table prints all lines of the file and reports the stages that are over budget.
func table(name string) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	out := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(out, "stage\ttime\tCPU\tbudget\t\t")
	var over []string
	for text := range strings.Lines(string(text)) {
		var l line
		if _, err := fmt.Sscan(text, &l.name, (*int64)(&l.wall), (*int64)(&l.cpu), (*int64)(&l.budget), &l.result); err != nil {
			return fmt.Errorf("%s: %q: %w", name, text, err)
		}
		if l.over() {
			over = append(over, l.name)
			l.result += ", over budget"
		}
		fmt.Fprintf(out, "%s\t%v\t%v\t%v\t%s\t\n", l.name, l.wall.Round(time.Second), l.cpu.Round(time.Second), l.budget, l.result)
	}
	if err := out.Flush(); err != nil {
		return err
	}
	if len(over) > 0 {
		return fmt.Errorf("%w: %s", errOver, strings.Join(over, ", "))
	}
	return nil
}

// again prints which tests needed a second run.
func again(dir string) error {
	reports, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil {
		return err
	}
	for _, report := range reports {
		text, err := os.ReadFile(report)
		if err != nil {
			return err
		}
		for line := range strings.Lines(string(text)) {
			fmt.Print("unsteady: ", line)
		}
	}
	return nil
}
