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

// run runs one job; what goes wrong is part of its output.
func run(j job.Job) {
	fmt.Print(job.Begin(j.Name))
	out := &lineEnd{}
	cmd := exec.Command(j.Argv[0], j.Argv[1:]...)
	cmd.Dir = j.Dir
	cmd.Stdout, cmd.Stderr = out, out
	start := time.Now()
	err := cmd.Run()
	took := time.Since(start)
	code := cmd.ProcessState.ExitCode()
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
