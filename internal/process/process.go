// Package process runs a program as a child process, in a process group of its own: a
// Ctrl-C at the terminal reaches only this process, which then ends its children in
// order. If this process dies first, the kernel sends each child the signal that it was
// started with. A child is waited for as soon as it ends, so that no process is taken
// for one that lives.
//
// A process that is meant to outlive this one is detached instead, see Detach; Become runs a program
// in the place of this process.
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
	done chan struct{} // Closed when the process has ended and was waited for.
	end  error         // How it ended; valid once done is closed.
}

// Start starts cmd, and sets its SysProcAttr. The process gets the signal death when this
// process dies. A pipe of cmd must not be read from: it closes when the process ends.
func Start(cmd *exec.Cmd, death syscall.Signal) (*Process, error) { return start(cmd, death, false) }

// start starts cmd, ordinary or with the priority of the caller.
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

// run starts the process and waits for it on one thread: the kernel sends the death signal
// when the thread that forked ends, not the process.
func (p *Process) run(cmd *exec.Cmd, started chan<- error, ordinary bool) {
	runtime.LockOSThread()
	if ordinary {
		resetOnFork() // the thread ends with this function, and that with it
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

// PID is the process id, which is also the id of the process group.
func (p *Process) PID() int { return p.pid }

// Done is closed when the process has ended and all its output was taken.
func (p *Process) Done() <-chan struct{} { return p.done }

// Ended says whether the process has ended.
func (p *Process) Ended() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// Wait waits until the process has ended, and returns how: nil for exit status 0, or
// what exec.Cmd.Wait returns.
func (p *Process) Wait() error {
	<-p.done
	return p.end
}

// Signal sends a signal to the process group. A group that is gone takes none, without an
// error.
func (p *Process) Signal(sig syscall.Signal) error {
	err := syscall.Kill(-p.pid, sig)
	if err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("signal %s to process group %d: %w", sig, p.pid, err)
	}
	return nil
}

// Adopt makes this process the parent of what its children leave running, from now on: only
// then can Clear wait for it.
func Adopt() error {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("adopt what children leave running: %w", err)
	}
	return nil
}

// Clear kills the process group, also what the process left in it, and waits until it is gone, or
// until ctx ends: a process that the kernel does not let go of stays, and a pipe of Start's command
// may be held by one that left the group, which goes on. The error is then the cause of ctx.
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

// reap takes what ended of the process group, and says whether nothing is left of it.
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

// RoundRobin is the real-time policy of a detached process, and Highest its priority: above every thread
// that starves others. Under SCHED_FIFO a thread of the Go runtime that waits without a system call
// (gcAssistAlloc calls Gosched in a loop) keeps its CPU for good, also from the thread that it waits for.
const (
	RoundRobin = unix.SCHED_RR
	Highest    = 99
)

// Detach starts a program in a session of its own, from the root directory and without the
// standard streams: it lives on when this process, its terminal or its process group ends. It goes
// before every other thread (SCHED_RR), and the kernel kills it last for memory, where this
// process may have that: what guards a host against a program that takes all of it does not starve.
func Detach(program []string) error {
	started := make(chan error)
	go func() {
		runtime.LockOSThread() // The thread ends with this function, and its policy with it.
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
