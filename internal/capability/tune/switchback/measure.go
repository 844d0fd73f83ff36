package switchback

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/process"
	"github.com/berth-project/berth/internal/value/unit"
)

// grace is how long a command has between SIGTERM and SIGKILL, and how long its output is read after its end.
const grace = 5 * time.Second

// state is the host's counters before or after a run.
type state struct {
	cpus         []unit.CPUSpent
	local, other uint64
}

func (o Options) look() (state, error) {
	var s state
	var err error
	if s.cpus, err = kernel.CPUsSpent(o.Host); err != nil {
		return s, err
	}
	s.local, s.other, err = kernel.PagesTaken(o.Host)
	return s, err
}

// stolen returns the CPU time between two states that went to other machines, and its share of all CPU time.
func (s state) stolen(before state) (steal unit.CPUTime, of float64) {
	var all unit.CPUTime
	for i := range min(len(s.cpus), len(before.cpus)) {
		now, then := s.cpus[i], before.cpus[i]
		steal += max(now.Steal-then.Steal, 0)
		all += max(now.Busy+now.Idle+now.Steal-then.Busy-then.Idle-then.Steal, 0)
	}
	return steal, share(float64(steal), float64(all))
}

// remote returns the share of the pages between two states that came from another NUMA node.
func (s state) remote(before state) float64 {
	other := float64(s.other) - float64(before.other)
	return share(other, other+float64(s.local)-float64(before.local))
}

func share(part, whole float64) float64 {
	if whole <= 0 {
		return 0
	}
	return part / whole
}

// measure runs the command once.
func (o Options) measure(ctx context.Context) (Run, error) {
	before, err := o.look()
	if err != nil {
		return Run{}, err
	}
	printed := &tail{}
	cmd := exec.Command(o.Command[0], o.Command[1:]...) //nolint:noctx // end gives its whole group the signals
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = printed, printed, grace
	begin := o.Clock()
	p, err := process.Start(cmd, syscall.SIGKILL)
	if err != nil {
		return Run{}, fmt.Errorf("%w: %w", ErrCommand, err)
	}
	select {
	case <-p.Done():
	case <-ctx.Done():
		return Run{}, end(ctx, p)
	}
	run := Run{Seconds: (o.Clock() - begin).Seconds()}
	after, err := o.look()
	// Processes that the command left would continue in the next run, of either kind.
	if err := errors.Join(err, p.Clear(ctx)); err != nil {
		return run, err
	}
	if err := p.Wait(); err != nil {
		return run, fmt.Errorf("%w: %s: %w: %s", ErrCommand, o.Command[0], err, printed)
	}
	steal, of := after.stolen(before)
	run.Steal, run.RemoteShare = of, after.remote(before)
	run.Void = of > mostSteal && steal >= leastSteal
	if used, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		run.Switches = used.Nvcsw + used.Nivcsw
		run.CPUSeconds = (cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Seconds()
	}
	run.Value, err = o.value(run, printed)
	return run, err
}

// end ends the command early and returns the cause.
func end(ctx context.Context, p *process.Process) error {
	if err := p.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	select {
	case <-p.Done():
	case <-time.After(grace):
	}
	last, cancel := context.WithTimeoutCause(context.WithoutCancel(ctx), grace, errStays)
	defer cancel()
	if err := p.Clear(last); err != nil {
		return err
	}
	return context.Cause(ctx) //nolint:wrapcheck // Compare knows its own, the rest is the caller's
}

// value returns the metric of a run.
func (o Options) value(run Run, printed *tail) (float64, error) {
	if o.Metric == nil {
		return run.Seconds, nil
	}
	all := o.Metric.FindAllSubmatch(printed.kept, -1)
	if len(all) == 0 {
		return 0, fmt.Errorf("%w: %s does not match what the command printed: %s", ErrMetric, o.Metric, printed)
	}
	found := all[len(all)-1]
	text := string(found[len(found)-1])
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !(value > 0) {
		return 0, fmt.Errorf("%w: %s matches %q, which is no number above 0", ErrMetric, o.Metric, text)
	}
	return value, nil
}

// A tail retains at least the last mostKept bytes, and at most twice as many.
const mostKept = 1 << 20

// tail keeps the end of what is written to it.
type tail struct{ kept []byte }

// Write implements io.Writer; it never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.kept = append(t.kept, p...)
	if len(t.kept) > 2*mostKept {
		t.kept = bytes.Clone(t.kept[len(t.kept)-mostKept:])
	}
	return len(p), nil
}

// String quotes the last line that is not blank.
func (t *tail) String() string {
	const most = 200
	text := strings.TrimSpace(string(t.kept))
	if text == "" {
		return "it printed nothing"
	}
	text = text[strings.LastIndexByte(text, '\n')+1:]
	return fmt.Sprintf("it printed last: %q", text[:min(len(text), most)])
}
