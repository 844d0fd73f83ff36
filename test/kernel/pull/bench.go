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

// lookEach is how often the benchmark is looked at: three times between the start of an arm's server and
// its load.
const lookEach = 100 * time.Millisecond

// endsIn is how long the benchmark may take to remove its groups when it is interrupted.
const endsIn = 20 * time.Second

// options say what to run.
type options struct {
	berth       string
	reserve     int
	duration    time.Duration
	repetitions int
	rate        float64
	buffer      int // MiB
}

// arguments are those of berth.
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

// bench is a benchmark under way: what it does is told by its groups.
type bench struct {
	options

	cmd    *exec.Cmd
	groups *groups
	tracer *tracer
	report *Report
	say    func(string)

	arm    string // That is recorded now, "" for none,
	server string // the process that serves in it,
	roles  map[int]role
}

// run runs the benchmark and takes in the trace of each arm as it ends.
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

// look begins to record where an arm has begun, and ends it with its server.
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

// isJudgeable says whether server and hogs of an arm may run on the same CPUs. Where they may not, a thread
// beside a CPU with hogs only cannot go there.
func isJudgeable(arm string) bool { return !strings.HasSuffix(arm, "cores") }

// finish takes in the trace of an arm. The benchmark stands still meanwhile, as reading takes time that the
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
	defer func() { _ = b.cmd.Process.Signal(unix.SIGCONT) }() // One that ended goes on with nothing.
	arm := b.report.arm(b.arm)
	arm.Seconds += b.duration.Seconds()
	s := scene{roles: b.roles, arm: arm}
	b.arm, b.server, b.roles = "", "", nil
	return b.tracer.drain(s.take)
}

// isGone says whether a process ended while it was looked at.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ESRCH) }
