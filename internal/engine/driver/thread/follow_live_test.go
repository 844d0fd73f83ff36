package thread_test

import (
	"errors"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/test/child"
)

// resets makes the threads that a process forks begin without a real-time policy and without a slice
// (SCHED_RESET_ON_FORK, sched_fork in kernel/sched/core.c).
func resets(t *testing.T, c *child.Child) {
	t.Helper()
	tids, err := kernel.ProcessThreads(c.Process.Pid)
	must(t, err)
	for _, tid := range tids {
		attr, err := unix.SchedGetAttr(tid, 0)
		if errors.Is(err, unix.ESRCH) {
			continue
		}
		must(t, err)
		attr.Flags |= unix.SCHED_FLAG_RESET_ON_FORK
		must(t, unix.SchedSetAttr(tid, attr, 0))
	}
}

// TestLiveFollow checks threads that come after an apply without what the knob names. One was moved into the group, one
// was forked by a process that resets real-time policies and slices on fork: both get it, and an undo gives back what
// they had. A new thread with a policy or slice of its own keeps it, and so does a thread on record that another
// program changed.
func TestLiveFollow(t *testing.T) {
	base, err := kernel.DefaultThreadSlice()
	must(t, err)
	for name, tt := range map[string]struct {
		target   func(group string) plan.Target
		given    unix.SchedAttr
		another  unix.SchedAttr
		inherits bool // a forked process has it although its parent resets it
	}{
		"policy": {
			func(group string) plan.Target { return thread.PolicyTarget(group, "batch") },
			unix.SchedAttr{Policy: unix.SCHED_BATCH},
			unix.SchedAttr{Policy: unix.SCHED_IDLE},
			true,
		},
		"real-time": {
			func(group string) plan.Target { return thread.PolicyTarget(group, "fifo:5") },
			unix.SchedAttr{Policy: unix.SCHED_FIFO, Priority: 5},
			unix.SchedAttr{Policy: unix.SCHED_IDLE},
			false,
		},
		"slice": {
			func(group string) plan.Target { return thread.SliceTarget(group, "7ms") },
			unix.SchedAttr{Runtime: 7e6},
			unix.SchedAttr{Runtime: 9e6},
			false,
		},
	} {
		if name == "slice" && base == 0 { // Linux before 6.12
			continue
		}
		t.Run(name, func(t *testing.T) {
			u := newUnit(t)
			target := tt.target(u.top.Path())
			follow := func(when string, want int) {
				t.Helper()
				u.with(func(a *apply.Applier, _ *journal.Journal) {
					if given, err := a.Follow(target); err != nil || (given > 0) != (want > 0) || given < want {
						t.Errorf("%s: given to %d threads, want %d, %v", when, given, want, err)
					}
				})
			}
			has := func(when string, tid int, want unix.SchedAttr) {
				t.Helper()
				s, err := kernel.ThreadScheduled(tid)
				if err != nil || s.Class != kernel.Class(want.Policy) || s.Priority != int(want.Priority) || want.Runtime > 0 && s.Slice != time.Duration(want.Runtime) {
					t.Errorf("%s: thread %d has %+v, %v, want %+v", when, tid, s, err, want)
				}
			}
			gives := func(tid int, attr unix.SchedAttr) {
				t.Helper()
				attr.Size = unix.SizeofSchedAttr
				must(t, unix.SchedSetAttr(tid, &attr, 0))
			}
			usual := unix.SchedAttr{Policy: unix.SCHED_NORMAL, Runtime: uint64(base)}
			follow("nothing is applied", 0)
			resets(t, u.first)
			var refused error
			u.with(func(a *apply.Applier, _ *journal.Journal) { refused = u.apply(a, target).Err })
			if errors.Is(refused, kernel.ErrNotSupported) && name == "real-time" { // without a budget of the group
				return
			}
			must(t, refused)
			follow("applied", 0)

			moved, forked := u.start(u.below), u.first.Tell("fork")
			came := 2
			if tt.inherits {
				came = 1
			} else {
				has("forked", forked, usual)
			}
			has("moved", moved.Process.Pid, usual)
			follow("new threads", came)
			has("followed", moved.Process.Pid, tt.given)
			has("followed", forked, tt.given)
			follow("once more", 0)

			own, changed := u.start(u.below), u.second.Process.Pid
			tids, err := kernel.ProcessThreads(own.Process.Pid)
			must(t, err)
			for _, tid := range append(tids, changed, forked) {
				gives(tid, tt.another)
			}
			follow("values of another program", 0)
			for _, tid := range []int{own.Process.Pid, changed, forked} {
				has("another program's", tid, tt.another)
			}
			gives(changed, unix.SchedAttr{})
			follow("another program gave the default to a thread on record", 0)
			has("the default", changed, usual)
			gives(forked, tt.given) // as it was before that program
			u.with(func(a *apply.Applier, _ *journal.Journal) { a.Restore(nil, false) })
			has("undone", moved.Process.Pid, usual)
			has("undone", forked, usual)
			has("undone", own.Process.Pid, tt.another)
		})
	}
}

// TestLiveFollowWithoutARecord: all threads of the unit had the policy, so none is on record. A process that comes
// without it gets it. An undo takes the policy back from this process and its children, and from no other: also not
// from a process that an older process forked since.
func TestLiveFollowWithoutARecord(t *testing.T) {
	u := newUnit(t)
	u.change(func(int) bool { return true }, func(s *kernel.Scheduled) { s.Class = kernel.Batch })
	target := thread.PolicyTarget(u.top.Path(), "batch")
	follow := func(when string, want bool) {
		t.Helper()
		u.with(func(a *apply.Applier, _ *journal.Journal) {
			if given, err := a.Follow(target); err != nil || (given > 0) != want {
				t.Errorf("%s: given to %d threads, %v", when, given, err)
			}
		})
	}
	has := func(when string, tid int, want kernel.Class) {
		t.Helper()
		if s, err := kernel.ThreadScheduled(tid); err != nil || s.Class != want {
			t.Errorf("%s: thread %d has %+v, %v, want %v", when, tid, s, err, want)
		}
	}
	follow("nothing is recorded", false)
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		now := a.Read([]plan.Target{target})[0]
		must(t, now.Err)
		if now.Value != thread.All {
			t.Errorf("the unit has %s", now.Value)
		}
		must(t, a.Claim([]plan.Change{{Setting: plan.Setting{Target: target, ID: now.ID, Value: thread.All, Owner: "tune"}, From: thread.None}}))
	})
	follow("recorded", false)
	moved := u.start(u.below)
	follow("a process was moved in", true)
	has("followed", moved.Process.Pid, kernel.Batch)
	follow("once more", false)
	ofMoved, ofFirst := moved.Tell("fork"), u.first.Tell("fork")
	has("forked", ofMoved, kernel.Batch)
	has("forked", ofFirst, kernel.Batch)
	u.with(func(a *apply.Applier, _ *journal.Journal) { a.Restore(nil, false) })
	has("undone", moved.Process.Pid, kernel.Other)
	has("undone, a child", ofMoved, kernel.Other)
	for _, tid := range []int{u.first.Process.Pid, u.second.Process.Pid, ofFirst} {
		has("undone, never written", tid, kernel.Batch)
	}
}
