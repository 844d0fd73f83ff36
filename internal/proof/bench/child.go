package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/linux/process"
)

// self is this program, even if its file was replaced in the meantime.
const self = "/proc/self/exe"

// grace is how long a child has between SIGTERM and SIGKILL.
const grace = 5 * time.Second

// ErrChild reports that a child process did not do its task.
var ErrChild = errors.New("child process failed")

// Child is a running subcommand of this program, or another program. Its standard input is a pipe that carries only the
// byte of Moved. The load subcommands end when the pipe closes, which the kernel does even if this process is killed.
type Child struct {
	process *process.Process
	name    string
	stdin   io.WriteCloser
	first   firstLine
	tail    *tail
	once    sync.Once
	err     error
}

// StartChild starts this program with args. It retains the last few KiB of standard error for error messages.
func StartChild(name string, args ...string) (*Child, error) {
	cmd := exec.Command(self, args...) // Not CommandContext: Stop ends it in order.
	cmd.Args[0] = "berth"              // The name that ps shows.
	return startCommand(name, cmd)
}

// startCommand starts any program as a child.
func startCommand(name string, cmd *exec.Cmd) (_ *Child, err error) {
	c := &Child{name: name, first: firstLine{said: make(chan string, 1)}, tail: &tail{}}
	cmd.Stdout, cmd.Stderr = &c.first, c.tail
	stdin, err := cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", name, err)
	}
	c.stdin = stdin
	if c.process, err = process.Start(cmd, syscall.SIGTERM); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return c, nil
}

// PID returns the child's process id.
func (c *Child) PID() int { return c.process.PID() }

// FirstLine waits for the first line of the child's standard output. It returns the line only once.
func (c *Child) FirstLine(ctx context.Context) (string, error) {
	select {
	case line := <-c.first.said:
		return line, nil
	case <-c.process.Done():
	case <-ctx.Done():
		return "", fmt.Errorf("wait for %s: %w", c.name, ctx.Err())
	}
	select {
	case line := <-c.first.said:
		return line, nil
	default:
		return "", fmt.Errorf("%w: %s said nothing: %s", ErrChild, c.name, c.tail)
	}
}

// Moved tells the child, by a byte of input, that it is in its group now.
func (c *Child) Moved() error {
	if _, err := c.stdin.Write([]byte{'\n'}); err != nil {
		return fmt.Errorf("%w: %s takes no input: %w: %s", ErrChild, c.name, err, c.tail)
	}
	return nil
}

// Alive returns an error that says why the child ended, nil while it runs.
func (c *Child) Alive() error {
	if c.process.Ended() {
		return fmt.Errorf("%w: %s ended: %s", ErrChild, c.name, c.tail)
	}
	return nil
}

// Wait waits for a child that ends by itself and returns an error if the child failed. When ctx ends first, Wait stops
// the child.
func (c *Child) Wait(ctx context.Context) error {
	stop := context.AfterFunc(ctx, func() { c.signal(syscall.SIGTERM) })
	defer stop()
	c.once.Do(func() { c.err = c.failure(c.process.Wait()) })
	return c.err
}

// Kill ends the child with SIGKILL and waits for it. Death by SIGKILL is no error.
func (c *Child) Kill() error {
	c.once.Do(func() {
		c.signal(syscall.SIGKILL)
		<-c.process.Done()
	})
	return c.err
}

// Finish closes the child's input, at which the child ends by itself, and waits for it. The child has a grace period.
func (c *Child) Finish() error {
	c.once.Do(func() {
		_ = c.stdin.Close() // The end of the child may have closed it.
		kill := time.AfterFunc(grace, func() { c.signal(syscall.SIGKILL) })
		defer kill.Stop()
		c.err = c.failure(c.process.Wait())
	})
	return c.err
}

// Stop ends the child by SIGTERM and the end of its input, after a grace period by SIGKILL, and waits for it. Later
// calls return the first call's error.
func (c *Child) Stop() error {
	c.once.Do(func() {
		c.signal(syscall.SIGTERM)
		_ = c.stdin.Close() // The end of the child may have closed it.
		kill := time.AfterFunc(grace, func() { c.signal(syscall.SIGKILL) })
		defer kill.Stop()
		if err := c.process.Wait(); !signalled(err) {
			c.err = c.failure(err)
		}
	})
	return c.err
}

// signal does nothing if the child has ended.
func (c *Child) signal(sig syscall.Signal) {
	if !c.process.Ended() {
		_ = c.process.Signal(sig) // The child may just have ended.
	}
}

// failure returns an error that says how the child ended, nil for success.
func (c *Child) failure(end error) error {
	if end == nil {
		return nil
	}
	return fmt.Errorf("%w: %s: %w: %s", ErrChild, c.name, end, c.tail)
}

// signalled reports whether the child died of the SIGTERM that Stop sent.
func signalled(err error) bool {
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		return false
	}
	status, ok := exit.Sys().(syscall.WaitStatus)
	return ok && status.Signaled() && status.Signal() == syscall.SIGTERM
}

// firstLine passes on the first line that is written to it and drops all later output, so that the child never blocks
// on a full pipe.
type firstLine struct {
	said chan string // has room for one line
	line []byte
	over bool
}

// Write never fails.
func (f *firstLine) Write(p []byte) (int, error) {
	if f.over {
		return len(p), nil
	}
	line, _, whole := bytes.Cut(p, []byte("\n"))
	f.line = append(f.line, line...)
	if whole {
		f.over = true
		f.said <- strings.TrimSpace(string(f.line))
	}
	return len(p), nil
}

// tail retains the last bytes that were written to it.
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
