package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// lookEach is the interval of checks of the benchmark: three between the start of an arm's server and its load.
const lookEach = 100 * time.Millisecond

// endsIn is how long the interrupted benchmark may take to remove its groups.
const endsIn = 20 * time.Second

// options are the options of the benchmark.
type options struct {
	berth       string
	reserve     int
	duration    time.Duration
	repetitions int
	rate        float64
	buffer      int // MiB
}

// arguments returns the arguments of berth.
func (o options) arguments() []string {
	args := []string{
		"bench", "interference", "--quick", "-o", "json",
		"--reserve", strconv.Itoa(o.reserve), "--duration", o.duration.String(), "--reps", strconv.Itoa(o.repetitions),
	}
	if o.rate > 0 {
		args = append(args, "--rate", strconv.FormatFloat(o.rate, 'g', -1, 64))
	}
	return args
}

// bench is a running benchmark, whose control groups show its progress.
type bench struct {
	options

	cmd    *exec.Cmd
	groups *groups
	tracer *tracer
	report *Report
	say    func(string)

	arm    string // The arm that is recorded now, "" for none,
	server string // and the process of its server.
	roles  map[int]role
}

// run runs the benchmark and reads the trace of each arm when it ends.
func (b *bench) run(ctx context.Context) (err error) {
	var complaint strings.Builder
	b.cmd = exec.CommandContext(ctx, b.berth, b.arguments()...)
	b.cmd.Stderr = &complaint
	b.cmd.Cancel = func() error { return b.cmd.Process.Signal(os.Interrupt) } // So it removes its groups.
	b.cmd.WaitDelay = endsIn
	if b.groups, err = newGroups(os.DirFS("/proc")); err != nil {
		return err
	}
	if err := b.cmd.Start(); err != nil {
		return fmt.Errorf("start %s: %w", b.berth, err)
	}
	ended := make(chan error, 1)
	go func() { ended <- b.cmd.Wait() }()
	each := time.NewTicker(lookEach)
	defer each.Stop()
	for failed := error(nil); ; {
		select {
		case err := <-ended:
			if failed != nil {
				return failed
			}
			if err != nil {
				return errors.Join(fmt.Errorf("%s: %w\n%s", strings.Join(b.cmd.Args, " "), err, complaint.String()), context.Cause(ctx))
			}
			return b.finish()
		case <-each.C:
			if failed != nil {
				continue
			}
			if failed = b.look(); failed != nil {
				_ = b.cmd.Process.Signal(os.Interrupt) // It may have ended by itself.
			}
		}
	}
}

// look starts recording when an arm has started, and stops when its server ends.
func (b *bench) look() error {
	sides, err := b.groups.look()
	if err != nil {
		return err
	}
	lives := ""
	for _, s := range sides {
		if s.role == server {
			lives = s.process
		}
	}
	if b.arm != "" && lives != b.server {
		if err := b.finish(); err != nil {
			return err
		}
	}
	for _, s := range sides {
		if s.role == server && b.arm == "" && isJudgeable(s.arm) {
			b.say(s.arm)
			b.arm, b.server, b.roles = s.arm, s.process, map[int]role{}
			if err := b.tracer.turn(true); err != nil {
				return err
			}
		}
		for _, thread := range s.threads {
			if s.arm == b.arm {
				b.roles[thread] = s.role
			}
		}
	}
	return nil
}

// isJudgeable reports whether the server and the hogs of an arm may run on the same CPUs. If they may not, a thread
// cannot move to a CPU that runs only hogs.
func isJudgeable(arm string) bool { return !strings.HasSuffix(arm, "cores") }

// finish reads the trace of an arm. It stops the benchmark in the meantime, because reading takes CPU time that the
// next arm would lack.
func (b *bench) finish() error {
	if b.arm == "" {
		return nil
	}
	if err := b.tracer.turn(false); err != nil {
		return err
	}
	if err := b.cmd.Process.Signal(unix.SIGSTOP); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("stop the benchmark: %w", err)
	}
	defer func() { _ = b.cmd.Process.Signal(unix.SIGCONT) }() // Harmless if it has ended.
	arm := b.report.arm(b.arm)
	arm.Seconds += b.duration.Seconds()
	s := scene{roles: b.roles, arm: arm}
	b.arm, b.server, b.roles = "", "", nil
	return b.tracer.drain(s.take)
}

// isGone reports whether a process ended during the check.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
