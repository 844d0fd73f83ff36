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

// runJobs runs the jobs of the initramfs in order, except those that the command line excludes, and reports each on
// standard output.
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

// leftOutput is how long a process that outlives its job may keep the job's output open.
const leftOutput = 30 * time.Second

// everyOther means every process except process 1 and the caller; see kill(2).
const everyOther = -1

// run runs one job; errors are part of its output. No process of the job may outlive it: a busy process would slow down
// all later jobs, and run would wait for a process that keeps the output open.
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

// lineEnd is standard output, remembering whether the last line is incomplete, because a marker must start a line.
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
