// Package child gives tests a process of their own program, in a control group, that does what a
// line on its standard input says. The test has a TestChild, which serves.
package child

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
)

// flag makes this program such a process.
const flag = "BERTH_TEST_CHILD"

// A Child is such a process. It ends with the test.
type Child struct {
	*exec.Cmd

	t      *testing.T
	input  io.WriteCloser
	output *bufio.Reader
}

// Start starts one, and has it attached to a group once it serves.
func Start(t *testing.T, attach func(pid int) error) *Child {
	t.Helper()
	c := &Child{t: t, Cmd: exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestChild$")}
	c.Env = append(os.Environ(), flag+"=1")
	var err error
	if c.input, err = c.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	c.output = bufio.NewReader(out)
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = c.Process.Kill(), c.Wait() })
	c.Tell("ready")
	if err := attach(c.Process.Pid); err != nil {
		t.Fatal(err)
	}
	return c
}

// Tell has the child do something, and returns the process that its answer names: its own, or the
// one that it forked.
func (c *Child) Tell(what string) int {
	c.t.Helper()
	if _, err := fmt.Fprintln(c.input, what); err != nil {
		c.t.Fatal(err)
	}
	for {
		line, err := c.output.ReadString('\n')
		if err != nil {
			c.t.Fatal(err)
		}
		text, is := strings.CutPrefix(strings.TrimSpace(line), "done ")
		if !is {
			continue // of the testing package
		}
		pid, err := strconv.Atoi(text)
		if err != nil {
			c.t.Fatal(line)
		}
		return pid
	}
}

// Serve is what TestChild does in a child, until its input ends; in the test itself it does nothing.
// A child forks another one of its kind where the line is "fork"; of any other line does does what
// that says.
func Serve(t *testing.T, does func(what string) error) {
	t.Helper()
	if os.Getenv(flag) == "" {
		return
	}
	for input := bufio.NewScanner(os.Stdin); input.Scan(); {
		pid, err := os.Getpid(), error(nil)
		if input.Text() == "fork" {
			pid, err = fork(t)
		} else {
			err = does(input.Text())
		}
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println("done", pid)
	}
}

// fork starts a child whose input is the forking one's to end.
func fork(t *testing.T) (int, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestChild$")
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if _, err := cmd.StdinPipe(); err != nil {
		return 0, fmt.Errorf("fork: %w", err)
	}
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("fork: %w", err)
	}
	return cmd.Process.Pid, nil
}
