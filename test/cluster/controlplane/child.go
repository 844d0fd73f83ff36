package controlplane

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/linux/process"
)

// Child is a program that runs as a child process, in its own process group, and writes its output to a log file. It
// dies with this process.
type Child struct {
	*process.Process
	name string
	log  string
}

// StartChild starts argv and appends its output to DIR/NAME.log. It starts the programs of a control plane and their
// clients, such as a scheduler.
func StartChild(dir, name string, argv ...string) (*Child, error) {
	logName := filepath.Join(dir, name+".log")
	log, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer log.Close()                         // The child has its own descriptor.
	cmd := exec.Command(argv[0], argv[1:]...) // Not CommandContext: Terminate ends it in order.
	cmd.Stdout, cmd.Stderr = log, log
	cmd.Dir = dir
	started, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrProgram, name, err)
	}
	return &Child{Process: started, name: name, log: logName}, nil
}

// Log returns the path of the log file.
func (c *Child) Log() string { return c.log }

// Alive returns nil while the process runs, and otherwise an error with its exit status and its last output.
func (c *Child) Alive() error {
	if !c.Ended() {
		return nil
	}
	end := c.Wait()
	if end == nil {
		end = errors.New("exit status 0")
	}
	return fmt.Errorf("%s %w: %w\n%s", c.name, ErrEnded, end, c.tail())
}

// Kill ends the process group with SIGKILL and waits for the process. It returns no error if the process has already
// ended.
func (c *Child) Kill() error {
	return c.stop(syscall.SIGKILL)
}

// Terminate sends SIGTERM to the process group and waits for the process without a limit. It returns no error if the
// process has already ended.
func (c *Child) Terminate() error {
	return c.stop(syscall.SIGTERM)
}

func (c *Child) stop(sig syscall.Signal) error {
	if err := c.Signal(sig); err != nil {
		return fmt.Errorf("stop %s: %w", c.name, err)
	}
	<-c.Done()
	return nil
}

// freezeLimit is how long the threads of a process may take to stop.
const freezeLimit = time.Minute

// Freeze stops the process group until SIGCONT. When it returns, no thread of the process runs: after the signal alone,
// threads may run a moment longer.
func (c *Child) Freeze() error {
	if err := c.Signal(syscall.SIGSTOP); err != nil {
		return fmt.Errorf("freeze %s: %w", c.name, err)
	}
	for deadline := time.Now().Add(freezeLimit); !c.frozen(); {
		if time.Now().After(deadline) {
			return fmt.Errorf("freeze %s: it still runs after %v: %w", c.name, freezeLimit, ErrState)
		}
		time.Sleep(time.Millisecond)
	}
	return nil
}

// frozen reports whether every thread is stopped.
func (c *Child) frozen() bool {
	stats, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", c.PID()))
	if err != nil || len(stats) == 0 {
		return false
	}
	for _, stat := range stats {
		text, err := os.ReadFile(stat)
		// The state follows the name in parentheses, which may contain any character.
		end := bytes.LastIndexByte(text, ')')
		if err != nil || end < 0 || !bytes.HasPrefix(text[end:], []byte(") T")) {
			return false
		}
	}
	return true
}

// The part of a log that an error message shows.
const (
	tailBytes = 8 << 10
	tailLines = 20
)

// tail returns the last lines of the log, for an error message.
func (c *Child) tail() string {
	file, err := os.Open(c.log)
	if err != nil {
		return fmt.Sprintf("(no log: %v)", err)
	}
	defer file.Close()
	size, err := file.Seek(0, io.SeekEnd)
	if err != nil {
		return fmt.Sprintf("(log unreadable: %v)", err)
	}
	text := make([]byte, min(size, tailBytes))
	n, _ := file.ReadAt(text, size-int64(len(text))) // A short read shows less.
	lines := bytes.Split(bytes.TrimRight(text[:n], "\n"), []byte("\n"))
	lines = lines[max(0, len(lines)-tailLines):]
	return fmt.Sprintf("the end of %s:\n%s", c.log, bytes.Join(lines, []byte("\n")))
}
