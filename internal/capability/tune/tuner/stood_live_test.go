package tuner_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// gives gives each thread of a process a policy and a slice, as another program would.
func (u *unit) gives(pid int, s kernel.Scheduled) {
	u.t.Helper()
	for range 2 { // a thread that was started meanwhile may have inherited nothing
		tids, err := kernel.ProcessThreads(pid)
		must(u.t, err)
		for _, tid := range tids {
			if err := hostwrite.Scheduled(tid, s); !errors.Is(err, syscall.ESRCH) {
				must(u.t, err)
			}
		}
	}
}

// repeats calls Repeat, and checks how many settings it set again.
func (u *unit) repeats(when string, restarted, followed int) {
	u.t.Helper()
	u.do(func(h *tuner.Tuner) {
		again, err := h.Repeat()
		if err != nil || len(again.Restarted) != restarted || len(again.Followed) != followed {
			u.t.Errorf("%s: set again %+v, %v, want %d and %d", when, again, err, restarted, followed)
		}
	})
}

// stored returns the time of the last write of the record and the journal.
func (u *unit) stored() map[string]time.Time {
	u.t.Helper()
	all := map[string]time.Time{}
	for _, name := range []string{"applied", "journal"} {
		info, err := os.Stat(filepath.Join(u.state, name))
		must(u.t, err)
		all[name] = info.ModTime()
	}
	return all
}

// rolledBack rolls back. A journal without entries gives no outcome.
func (u *unit) rolledBack(want int) {
	u.t.Helper()
	u.do(func(h *tuner.Tuner) {
		all := outcomes(h.Rollback())
		for at, outcome := range all {
			if outcome != apply.OutcomeRestored && outcome != apply.OutcomeAlready { // a policy takes the slice back with it
				u.t.Errorf("%s: %s", at, outcome)
			}
		}
		if len(all) != want {
			u.t.Errorf("%d entries were rolled back, want %d", len(all), want)
		}
	})
	if _, is, err := tuner.Load(u.state); is || err != nil || len(u.originals()) > 0 {
		u.t.Errorf("on record: %t, %v, %v", is, err, u.originals())
	}
}

// hasClass checks the policy of a process.
func (u *unit) hasClass(when string, pid int, want kernel.Class) {
	u.t.Helper()
	if s, err := kernel.ThreadScheduled(pid); err != nil || s.Class != want {
		u.t.Errorf("%s: process %d has %+v, %v, want %v", when, pid, s, err, want)
	}
}

// TestLiveUnitStood: the threads of a unit had the policy and the slice of a profile already. A rollback leaves them. A
// process that comes without them gets them, and a rollback takes them back from that process only. A process with a
// policy of its own keeps it. After a restart of the unit Berth sets both, and a rollback restores what the unit began
// with.
func TestLiveUnitStood(t *testing.T) {
	u := newUnit(t)
	o := u.order(confirm)
	o.Settings = o.Settings[1:] // without the CPUs
	set := kernel.Scheduled{Class: kernel.Batch}
	if len(o.Settings) > 1 { // the kernel has slices per thread
		set.Slice = 7 * time.Millisecond
	}
	applied := func() {
		t.Helper()
		u.gives(u.cmd.Process.Pid, set)
		u.do(func(h *tuner.Tuner) {
			if r, err := h.Apply(o); err != nil || r.Writes != 0 {
				t.Errorf("%+v, %v", r, err)
			}
		})
		u.want("applied", tune.OK, tune.UnitPolicy, tune.UnitSlice)
		u.repeats("applied", 0, 0)
	}
	applied()
	stood := u.has()
	pid := u.cmd.Process.Pid
	must(t, hostwrite.Scheduled(pid, kernel.Scheduled{Class: kernel.Idle}))
	u.repeats("another program's policy", 0, 0)
	u.rolledBack(0)
	u.hasClass("rolled back", pid, kernel.Idle)

	applied()
	moved, own := process(t).Process.Pid, process(t).Process.Pid // they inherit nothing
	u.gives(own, kernel.Scheduled{Class: kernel.Idle})
	must(t, u.group.Attach(own))
	before := u.stored()
	u.repeats("a policy of its own", 0, 0)
	if d := cmp.Diff(before, u.stored()); d != "" {
		t.Errorf("written for nothing:\n%s", d)
	}
	if on := u.originals(); len(on) > 0 {
		t.Errorf("on record, although nothing was written: %v", on)
	}
	must(t, u.group.Attach(moved))
	u.want("moved in", tune.Drift, tune.UnitPolicy)
	u.repeats("moved in", 0, len(o.Settings))
	u.hasClass("followed", moved, kernel.Batch)
	u.hasClass("followed", own, kernel.Idle)
	u.repeats("once more", 0, 0)
	u.rolledBack(len(o.Settings))
	u.hasClass("rolled back", moved, kernel.Other)
	u.hasClass("rolled back", own, kernel.Idle)
	for tid, s := range stood.Threads {
		if now, is := u.has().Threads[tid]; is && now != s {
			t.Errorf("thread %d has %+v, had %+v, and Berth wrote neither", tid, now, s)
		}
	}

	u.gives(own, set)
	u.gives(moved, set)
	applied()
	u.stop()
	u.start()
	o.Settings = u.order(confirm).Settings[1:]
	pid = u.cmd.Process.Pid
	u.gives(pid, set)
	u.repeats("restarted with both", 0, 0)
	u.gives(pid, kernel.Scheduled{Class: kernel.Idle})
	u.repeats("another program's policy after the restart", 0, 0)
	u.hasClass("after the restart", pid, kernel.Idle)
	u.stop()
	u.repeats("stopped", 0, 0)
	u.start()
	o.Settings = u.order(confirm).Settings[1:]
	began := u.has()
	u.repeats("restarted", len(o.Settings), 0)
	u.repeats("once more", 0, 0)
	u.hasClass("restarted", u.cmd.Process.Pid, kernel.Batch)
	u.rolledBack(len(o.Settings))
	u.asBefore("rolled back", began)
}

// TestLiveUnitWithoutThreads: a unit has no process when a profile is applied. A process that comes later gets the
// policy and the slice, and a rollback gives it back what it had.
func TestLiveUnitWithoutThreads(t *testing.T) {
	u := newUnit(t)
	o := u.order(confirm)
	o.Settings = o.Settings[1:]
	must(t, u.cmd.Process.Kill())
	_ = u.cmd.Wait() // it was killed
	u.do(func(h *tuner.Tuner) {
		_, err := h.Apply(o)
		must(t, err)
		must(t, h.Commit())
	})
	moved := process(t)
	had, err := kernel.ThreadScheduled(moved.Process.Pid)
	must(t, err)
	must(t, u.group.Attach(moved.Process.Pid))
	u.repeats("moved in", 0, len(o.Settings))
	u.hasClass("followed", moved.Process.Pid, kernel.Batch)
	u.rolledBack(len(o.Settings))
	now, err := kernel.ThreadScheduled(moved.Process.Pid)
	must(t, err)
	if d := cmp.Diff(had, now); d != "" {
		t.Error(d)
	}
}
