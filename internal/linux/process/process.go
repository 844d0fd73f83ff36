// Package process runs a program as a child process in its own process group: a Ctrl-C at the terminal reaches only
// this process, which then ends its children in order. If this process dies first, the kernel sends each child the
// signal that was chosen at its start. The package waits for a child as soon as it ends, so that an ended child is
// never mistaken for a live process.
//
// Detach starts a process that outlives this process. Become runs a program in place of this process.
package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// Process is a program that was started. Its methods are safe for concurrent use.
type Process struct {
	pid  int
	done chan struct{} // closed when the process has ended and was waited for
	end  error         // how it ended; valid once done is closed
}

// Start starts cmd, and sets its SysProcAttr. The process gets the signal death when this process dies. The caller must
// not read from a pipe of cmd: it closes when the process ends.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) { return start(cmd, death, false) }

// start starts cmd with an ordinary priority or with the caller's.
func start(cmd *exec.Cmd, death syscall.Signal, ordinary bool) (*Process, error) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: death}
	p := &Process{done: make(chan struct{})}
	started := make(chan error)
	go p.run(cmd, started, ordinary)
	if err := <-started; err != nil {
		return nil, fmt.Errorf("start %s: %w", cmd.Path, err)
	}
	return p, nil
}

// run starts the process and waits for it on one thread, because the kernel sends the death signal when the thread that
// forked ends, not the process.
func (p *Process) run(cmd *exec.Cmd, started chan<- error, ordinary bool) {
	runtime.LockOSThread()
	if ordinary {
		resetOnFork() // the thread, with this setting, ends with this function
	} else {
		defer runtime.UnlockOSThread()
	}
	if err := cmd.Start(); err != nil {
		started <- err
		return
	}
	p.pid = cmd.Process.Pid
	if ordinary {
		exposeToOOM(p.pid)
	}
	started <- nil
	p.end = cmd.Wait()
	close(p.done)
}

// PID returns the process id, which is also the id of the process group.
func (p *Process) PID() int { return p.pid }

// Done returns a channel that is closed when the process has ended and all its output was read.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended reports whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits until the process has ended. It returns nil for exit status 0, and otherwise the error of exec.Cmd.Wait.
func (p *Process) Wait() error {
	<-p.done
	return p.end
}

// Signal sends a signal to the process group. A group that no longer exists is no error.
func (p *Process) Signal(sig syscall.Signal) error {
	err := syscall.Kill(-p.pid, sig)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s to process group %d: %w", sig, p.pid, err)
	}
	return nil
}

// Adopt makes this process the parent of processes that its children leave running from now on. Only then can Clear
// wait for them.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt what children leave running: %w", err)
	}
	return nil
}

// Clear kills the process group, including processes that the process left in it, and waits until the group is gone or
// ctx ends. The kernel may be unable to end a process. A process that left the group keeps running, and may keep a pipe
// of Start's command open. When ctx ends, the error is its cause.
func (p *Process) Clear(ctx context.Context) error {
	ended := make(chan os.Signal, 1)
	signal.Notify(ended, unix.SIGCHLD)
	defer signal.Stop(ended)
	done := p.done
	for {
		if err := p.Signal(syscall.SIGKILL); err != nil {
			return err
		}
		if done == nil { // no other wait is under way
			if gone, err := p.reap(); gone || err != nil {
				return err
			}
		}
		select {
		case <-done:
			done = nil
		case <-ended:
		case <-ctx.Done():
			return fmt.Errorf("process group %d does not end: %w", p.pid, context.Cause(ctx))
		}
	}
}

// reap waits for the ended processes of the process group, and reports whether none is left.
func (p *Process) reap() (gone bool, err error) {
	for {
		pid, err := unix.Wait4(-p.pid, nil, unix.WNOHANG, nil)
		switch {
		case errors.Is(err, unix.ECHILD):
			return true, nil
		case err != nil && !errors.Is(err, unix.EINTR):
			return false, fmt.Errorf("wait for process group %d: %w", p.pid, err)
		case err == nil && pid == 0:
			return false, nil
		}
	}
}

// RoundRobin is the real-time policy of a detached process, and Highest its priority: above every thread that starves
// others. SCHED_FIFO is unsuitable: a thread of the Go runtime may wait without a system call (gcAssistAlloc calls
// Gosched in a loop). It would keep its CPU forever, also from the thread that it waits for.
const (
	RoundRobin = unix.SCHED_RR
	Highest    = 99
)

// Detach starts a program in its own session, in the root directory and without the standard streams. The program
// survives the end of this process, its terminal and its process group. If this process has the permission, the program
// runs before every other thread (SCHED_RR), and the kernel kills it last when memory runs out. A program that guards
// the host therefore does not starve while another program uses all CPUs or memory.
func Detach(program []string) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // the thread, with its policy, ends with this function
		_ = unix.SchedSetAttr(0, &unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: RoundRobin, Priority: Highest}, 0)
		started <- detach(program)
	}()
	return <-started
}

func detach(program []string) error {
	cmd := exec.Command(program[0], program[1:]...) //nolint:noctx // it must outlive every context
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", program[0], err)
	}
	_ = os.WriteFile(fmt.Sprintf("/proc/%d/oom_score_adj", cmd.Process.Pid), []byte("-1000"), 0)
	if err := cmd.Process.Release(); err != nil {
		return fmt.Errorf("release %s: %w", program[0], err)
	}
	return nil
}
