package bench

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"
)

// self is this very program, also when its file was replaced meanwhile.
const self = "/proc/self/exe"

// grace is how long a child gets between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// ErrChild says that a child process did not do what it was started for.
var ErrChild = errors.New("child process failed")

// Child is a running subcommand of this program. Its standard input is a pipe
// that no process writes to: the load subcommands end when it closes, which the
// kernel does even if this process is killed. It has a process group of its
// own, so that a Ctrl-C at the terminal reaches only this process, which then
// stops its children in order.
type Child struct {
	name  string
	cmd   *exec.Cmd
	stdin io.Closer
	first chan string
	tail  *tail
	once  sync.Once
	done  chan struct{}
	err   error
}

// StartChild starts this program with args. Its standard error is kept (the
// last few KiB) for the error message if it fails.
func StartChild(name string, args ...string) (*Child, error) {
	cmd := exec.Command(self, args...) // Not CommandContext: Stop ends it in order.
	cmd.Args[0] = "berth"              // What ps shows.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
	stderr := &tail{}
	cmd.Stderr = stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c := &Child{name: name, cmd: cmd, stdin: stdin, first: make(chan string, 1), tail: stderr, done: make(chan struct{})}
	go c.listen(stdout)
	return c, nil
}

// listen hands on the first line and drops the rest, so that the child never
// blocks on a full pipe. It ends when the child does.
func (c *Child) listen(stdout io.Reader) {
	defer close(c.first)
	lines := bufio.NewReader(stdout)
	if line, err := lines.ReadString('\n'); err == nil {
		c.first <- strings.TrimSpace(line)
	}
	_, _ = io.Copy(io.Discard, lines) // Ends with the pipe.
}

// PID is the child's process id.
func (c *Child) PID() int { return c.cmd.Process.Pid }

// FirstLine waits for the first line of the child's standard output. It can be
// asked once.
func (c *Child) FirstLine(ctx context.Context) (string, error) {
	select {
	case line, ok := <-c.first:
		if !ok {
			return "", fmt.Errorf("%w: %s said nothing: %s", ErrChild, c.name, c.tail)
		}
		return line, nil
	case <-ctx.Done():
		return "", fmt.Errorf("wait for %s: %w", c.name, ctx.Err())
	}
}

// Alive says whether the child still runs, and if not, why.
func (c *Child) Alive() error {
	select {
	case <-c.done:
		return fmt.Errorf("%w: %s ended: %s", ErrChild, c.name, c.tail)
	default:
	}
	if err := c.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		return fmt.Errorf("%w: %s ended: %s", ErrChild, c.name, c.tail)
	}
	return nil
}

// Wait waits for a child that ends by itself and returns an error when it
// failed. When ctx ends first, it stops the child.
func (c *Child) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { _ = c.cmd.Process.Signal(syscall.SIGTERM) })
	defer stop()
	c.once.Do(func() {
		defer close(c.done)
		defer c.stdin.Close()
		if err := c.cmd.Wait(); err != nil {
			c.err = fmt.Errorf("%w: %s: %w: %s", ErrChild, c.name, err, c.tail)
		}
	})
	return c.err
}

// Kill ends the child with SIGKILL and waits for it. That it died of it is no
// error.
func (c *Child) Kill() error {
	c.once.Do(func() {
		defer close(c.done)
		_ = c.cmd.Process.Kill() // It may have ended by itself.
		_ = c.stdin.Close()
		_ = c.cmd.Wait()
	})
	return c.err
}

// Stop ends the child: SIGTERM and the end of its input, after a grace period
// SIGKILL, and waits for it. Calls after the first return the first's error.
func (c *Child) Stop() error {
	c.once.Do(func() {
		defer close(c.done)
		_ = c.cmd.Process.Signal(syscall.SIGTERM) // It may have ended by itself.
		_ = c.stdin.Close()
		kill := time.AfterFunc(grace, func() { _ = c.cmd.Process.Kill() })
		defer kill.Stop()
		err := c.cmd.Wait()
		if signalled(err) {
			err = nil
		}
		if err != nil {
			c.err = fmt.Errorf("%w: %s: %w: %s", ErrChild, c.name, err, c.tail)
		}
	})
	return c.err
}

// signalled says whether the child died of the SIGTERM that Stop sent.
func signalled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// tail keeps the last bytes that were written to it.
type tail struct {
	mu   sync.Mutex
	data []byte
}

const tailSize = 4096

// Write never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.data = append(t.data, p...)
	if over := len(t.data) - tailSize; over > 0 {
		t.data = append(t.data[:0], t.data[over:]...)
	}
	return len(p), nil
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.data) == 0 {
		return "(no message)"
	}
	return string(t.data)
}
