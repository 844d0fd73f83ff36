package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/kernel/job"
)

// runJobs runs the jobs of the initramfs in order, but for those that the command line
// leaves out, and reports each on standard output.
func runJobs() error {
	data, err := os.ReadFile(job.File)
	if err != nil {
		return err
	}
	var jobs []job.Job
	if err := json.Unmarshal(data, &jobs); err != nil {
		return fmt.Errorf("%s: %w", job.File, err)
	}
	line, err := os.ReadFile(cmdline)
	if err != nil {
		return err
	}
	without := strings.Split(job.Param(string(line), job.WithoutParam), ",")
	for _, j := range jobs {
		if !slices.Contains(without, j.Name) {
			run(j)
		}
	}
	return nil
}

// leftOutput is how long a job's output may stay open after its end, in the hands of a process that
// it has left.
const leftOutput = 30 * time.Second

// everyOther stands for every process but process 1 and the caller; see kill(2).
const everyOther = -1

// run runs one job; what goes wrong is part of its output. No process of it outlives it: one that
// computes on would slow down all that follow, and one that holds its output would be waited for.
func run(j job.Job) {
	fmt.Print(job.Begin(j.Name))
	out := &lineEnd{}
	cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
	cmd.Dir = j.Dir
	cmd.Env = append(os.Environ(), j.Env...)
	cmd.Stdout, cmd.Stderr = out, out
	cmd.WaitDelay = leftOutput
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	code := cmd.ProcessState.ExitCode()
	if errors.Is(err, exec.ErrWaitDelay) {
		code = -1
	}
	if err := unix.Kill(everyOther, unix.SIGKILL); err != nil && !errors.Is(err, unix.ESRCH) {
		fmt.Fprintln(out, "guest: end what the job left:", err)
	}
	if exit := (*exec.ExitError)(nil); err != nil && !errors.As(err, &exit) {
		fmt.Fprintln(out, "guest:", err)
	}
	var content []byte
	if j.File != "" {
		if content, err = os.ReadFile(j.File); err != nil {
			fmt.Fprintln(out, "guest:", err)
		}
	}
	if out.open {
		fmt.Println()
	}
	fmt.Print(job.End(j.Name, code, took))
	if content != nil {
		fmt.Print(job.Content(j.Name, content))
	}
}

// lineEnd is standard output, remembering whether the last line is still open: a marker
// must start a line.
type lineEnd struct{ open bool }

func (l *lineEnd) Write(p []byte) (int, error) {
	if len(p) > 0 {
		l.open = p[len(p)-1] != '\n'
	}
	n, err := os.Stdout.Write(p)
	if err != nil {
		return n, fmt.Errorf("serial port: %w", err)
	}
	return n, nil
}
