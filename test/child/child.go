// Package child starts a copy of the test program in a control group, for tests. The copy obeys the lines on its
// standard input. The test package needs a TestChild that calls Serve.
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

// flag marks a process as a child.
const flag = "BERTH_TEST_CHILD"

// A Child is a copy of the test program. It ends with the test.
type Child struct {
	*exec.Cmd

	t      *testing.T
	input  io.WriteCloser
	output *bufio.Reader
}

// Start starts a child and calls attach once the child serves.
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

// Tell sends a command to the child and returns the process that its answer names: the child itself or the process that
// it forked.
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
			continue // output of the testing package
		}
		pid, err := strconv.Atoi(text)
		if err != nil {
			c.t.Fatal(line)
		}
		return pid
	}
}

// Serve runs commands in a child until its input ends. In the test itself it does nothing. The line "fork" makes the
// child fork another child; Serve passes any other line to does.
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

// fork starts a child that ends when the forking process closes its input.
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
