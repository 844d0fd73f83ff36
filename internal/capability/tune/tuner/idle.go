package tuner

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/knob"
)

// betweenLooks is the time between the two looks of a verification.
const betweenLooks = 200 * time.Millisecond

// Idle is one look at the idle states of each CPU whose wake-up a profile limits (/sys/devices/system/cpu/cpu*/cpuidle).
// It is a copy, and the zero value is no look.
type Idle struct {
	since  time.Time // the apply of the profile
	driver string    // of cpuidle, "" or "none" without one
	cpus   map[string]idleCPU
}

// idleCPU is one CPU. Limit is the content of the file that limits its wake-up: microseconds, 0 for no limit, and n/a
// for no wake-up at all.
type idleCPU struct {
	limit  string
	states []idleState
}

// microseconds returns the limit, and false for none.
func (c idleCPU) microseconds() (limit uint64, is bool) {
	if c.limit == "n/a" {
		return 0, true
	}
	limit, err := strconv.ParseUint(c.limit, 10, 64)
	return limit, err == nil && limit > 0
}

// idleState is one idle state. Latency is how long leaving it takes, in microseconds. Left is how often the CPU left
// it: the kernel counts at the end, and only if the CPU was in it. Disabled states are not chosen.
type idleState struct {
	name     string
	latency  uint64
	left     uint64
	disabled bool
}

// Idle looks at the idle states of the CPUs whose wake-up the profile limits.
func (a Applied) Idle(tree fs.FS) Idle {
	limits := slices.DeleteFunc(slices.Clone(a.Settings), func(s Setting) bool { return s.Knob != ResumeLatency || s.Want == "any" })
	if len(limits) == 0 {
		return Idle{}
	}
	host := knob.Open(tree)
	look := Idle{since: a.Since, driver: host.Text("/sys/devices/system/cpu/cpuidle/current_driver"), cpus: map[string]idleCPU{}}
	for _, s := range limits {
		look.cpus[s.File] = idleCPU{host.Text(s.File), idleStates(host, path.Join(path.Dir(path.Dir(s.File)), "cpuidle"))}
	}
	return look
}

// idleStates reads the states of a CPU, shallow ones first. It returns nil if it cannot read all of them.
func idleStates(host *knob.Host, dir string) (all []idleState) {
	for {
		at := fmt.Sprintf("%s/state%d/", dir, len(all))
		if !host.There(at + "usage") {
			return all
		}
		left, errLeft := strconv.ParseUint(host.Text(at+"usage"), 10, 64)
		latency, errLatency := strconv.ParseUint(host.Text(at+"latency"), 10, 64)
		if errLeft != nil || errLatency != nil {
			return nil
		}
		all = append(all, idleState{host.Text(at + "name"), latency, left, host.Text(at+"disable") == "1"})
	}
}

// VerifyOver compares as Verify does, and looks at idle states before and after a pause, if the profile limits the
// wake-up of CPUs. A nil pause looks only once. The error is that of pause.
func (a Applied) VerifyOver(
	ctx context.Context, tree fs.FS, asked Kernel, entries []journal.Entry, pause func(context.Context, time.Duration) error,
) ([]tune.Verified, error) {
	var before Idle
	if pause != nil {
		before = a.Idle(tree)
	}
	if len(before.cpus) > 0 {
		if err := pause(ctx, betweenLooks); err != nil {
			return nil, err
		}
	}
	rows := a.Verify(tree, asked, entries)
	JudgeIdle(rows, before, a.Idle(tree))
	return rows, nil
}

// JudgeIdle gives the rows that limit the wake-up of CPUs what the kernel did between two looks. A row whose file has
// another value keeps its state.
func JudgeIdle(rows []tune.Verified, before, now Idle) {
	for i, row := range rows {
		cpu, looked := now.cpus[row.File]
		if !looked || row.State != tune.OK {
			continue
		}
		then, twice := before.cpus[row.File]
		switch {
		case len(cpu.states) == 0 && (now.driver == "" || now.driver == "none"):
			rows[i].State, rows[i].Reason = tune.Unproven, "the kernel has no cpuidle driver, and counts no idle states"
		case len(cpu.states) == 0:
			rows[i].State, rows[i].Reason = tune.Unproven, "cpuidle shows no idle states of the CPU"
		case !twice || !before.since.Equal(now.since):
			rows[i].State, rows[i].Reason = tune.Unproven, "the counts of idle states were read only once"
		default:
			cpu.judge(&rows[i], then)
		}
	}
}

// judge compares two looks at a CPU. One count above the limit proves nothing: the CPU may have entered the state before
// the first look, and even before the limit was written. It is in one state at a time, so a second count is an entry
// between the looks.
func (c idleCPU) judge(row *tune.Verified, before idleCPU) {
	limit, is := c.microseconds()
	switch {
	case !is || c.limit != before.limit:
		row.State, row.Reason = tune.Unproven, "the limit changed between the two looks"
		return
	case !slices.EqualFunc(c.states, before.states, func(now, then idleState) bool { return now.left >= then.left }):
		row.State, row.Reason = tune.Unproven, "the counts of idle states started again between the two looks"
		return
	}
	var within, above, longest uint64
	var deep []string
	for i, s := range c.states {
		n := s.left - before.states[i].left
		if s.latency <= limit {
			within += n
		} else if n > 0 {
			above, longest = above+n, max(longest, s.latency)
			deep = append(deep, fmt.Sprintf("%d x %s (%dus)", n, s.name, s.latency))
		}
	}
	switch {
	case above > 1:
		row.State, row.Effective = tune.Ignored, fmt.Sprintf("%dus", longest)
		row.Reason = "between two looks the CPU left " + strings.Join(deep, ", ")
		if !slices.ContainsFunc(c.states, func(s idleState) bool { return s.latency <= limit && !s.disabled }) {
			row.Reason += "; no idle state within the limit is enabled"
		}
	case above == 1:
		row.State, row.Reason = tune.Unproven, "the CPU left an idle state above the limit once, and may have entered it before the two looks"
	case within == 0:
		row.State, row.Reason = tune.Unproven, "the CPU left no idle state between the two looks"
	}
}
