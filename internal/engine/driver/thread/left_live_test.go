package thread_test

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/child"
)

// startThreads starts threads that stay until the process ends.
func startThreads() {
	const more = 16 // more than the idle threads of the Go runtime
	var started sync.WaitGroup
	for range more {
		started.Add(1)
		go func() {
			runtime.LockOSThread()
			started.Done()
			select {}
		}()
	}
	started.Wait()
}

// left is a unit whose processes leave it for another group.
type left struct {
	*unit

	other  *scratch.Group
	target plan.Target
	before map[int]kernel.Scheduled
}

func newLeft(t *testing.T) *left {
	t.Helper()
	u := newUnit(t)
	l := &left{unit: u, target: thread.PolicyTarget(u.top.Path(), "idle"), before: u.has()}
	var err error
	l.other, err = scratch.New(u.host, "", scratch.Name("test-left"))
	must(t, err)
	t.Cleanup(func() {
		for _, c := range l.processes() {
			must(t, c.Process.Kill())
			_ = c.Wait() // it was killed
		}
		if err := l.other.Close(); err != nil {
			t.Error(err)
		}
	})
	return l
}

// leave moves the processes into the other group, where they start threads.
func (l *left) leave() {
	l.t.Helper()
	for _, c := range l.processes() {
		must(l.t, l.other.Attach(c.Process.Pid))
		c.Tell("threads")
	}
}

// applied gives the unit a policy, and then moves all its processes to the other group.
func (l *left) applied() {
	l.t.Helper()
	l.with(func(a *apply.Applier, _ *journal.Journal) {
		if r := l.apply(a, l.target); r.Err != nil {
			l.t.Fatalf("%+v", r)
		}
	})
	l.leave()
	if all := l.elsewhere(); len(all) < len(l.before) {
		l.t.Errorf("%d threads, and before %d", len(all), len(l.before))
	}
	for tid, s := range l.elsewhere() {
		if s.Class != kernel.Idle {
			l.t.Errorf("in the other group thread %d has %+v", tid, s)
		}
	}
}

func (l *left) processes() []*child.Child { return []*child.Child{l.first, l.second} }

// elsewhere returns the scheduling attributes of every thread of the processes that left.
func (l *left) elsewhere() map[int]kernel.Scheduled {
	l.t.Helper()
	all := map[int]kernel.Scheduled{}
	for _, c := range l.processes() {
		tids, err := kernel.ProcessThreads(c.Process.Pid)
		must(l.t, err)
		for _, tid := range tids {
			s, err := kernel.ThreadScheduled(tid)
			if errors.Is(err, syscall.ESRCH) {
				continue
			}
			must(l.t, err)
			all[tid] = s
		}
	}
	return all
}

// end removes the group of the unit.
func (l *left) end() {
	l.t.Helper()
	must(l.t, l.top.Close())
}

// again makes a new group with the name of the unit's removed group. The end of the test removes it.
func (l *left) again() {
	l.t.Helper()
	var err error
	l.top, err = scratch.New(l.host, "", scratch.Name("test-thread"))
	must(l.t, err)
}

// asBefore checks that every thread that left has its original attributes. A thread that was started in the other group
// must have those of the first thread of its process.
func (l *left) asBefore() {
	l.t.Helper()
	for tid, s := range l.elsewhere() {
		was, known := l.before[tid]
		if !known {
			was.Class, was.Nice, was.Slice = l.before[l.process(tid)].Class, s.Nice, s.Slice
		}
		if s != was {
			l.t.Errorf("undone, thread %d has %+v, want %+v (on record: %v)", tid, s, was, known)
		}
	}
}

// TestLiveAllThreadsLeft checks that the threads of a unit are restored after all of them moved to another group. That
// also holds if the unit's group is gone, or a new group has its name.
func TestLiveAllThreadsLeft(t *testing.T) {
	for name, becomes := range map[string]func(*left){
		"empty":      func(*left) {},
		"gone":       func(l *left) { l.end() },
		"made again": func(l *left) { l.end(); l.again() },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLeft(t)
			l.applied()
			becomes(l)
			l.with(func(a *apply.Applier, j *journal.Journal) {
				if dry := apply.Compare(thread.Kinds(l.host, kernel.DefaultThreadSlice), j.Entries()); len(dry) != 1 || dry[0].Outcome != apply.OutcomeRestored {
					t.Errorf("a dry run: %+v", dry)
				}
				l.restored(a, apply.OutcomeRestored)
				l.asBefore()
				if len(j.Entries()) > 0 {
					t.Errorf("entries %v", j.Entries())
				}
			})
			if name == "gone" {
				l.again()
			}
		})
	}
}

// TestLiveLeftAndStartedAnew checks an apply to a unit that was restarted while threads of its former group live
// elsewhere. The apply first restores these threads, because it replaces their record.
func TestLiveLeftAndStartedAnew(t *testing.T) {
	for name, claims := range map[string]bool{"claimed": true, "repeated": false} {
		t.Run(name, func(t *testing.T) {
			l := newLeft(t)
			l.applied()
			l.end()
			l.again()
			leaf, err := l.top.Sub("leaf")
			must(t, err)
			next := l.start(leaf)
			l.with(func(a *apply.Applier, j *journal.Journal) {
				now := a.Read([]plan.Target{l.target})[0]
				if now.Value != thread.None || now.Err != nil {
					t.Errorf("the new group: %+v", now)
				}
				c := plan.Change{Setting: plan.Setting{Target: l.target, ID: now.ID, Value: thread.All, Owner: "tune", Workload: "p"}, From: now.Value}
				if claims {
					must(t, a.Claim([]plan.Change{c}))
				}
				if r := a.Apply([]plan.Change{c})[0]; r.Err != nil || !r.Wrote {
					t.Errorf("%+v", r)
				}
				l.asBefore()
				if s, err := kernel.ThreadScheduled(next.Process.Pid); err != nil || s.Class != kernel.Idle {
					t.Errorf("the new process has %+v, %v", s, err)
				}
				l.restored(a, apply.OutcomeRestored)
				if s, err := kernel.ThreadScheduled(next.Process.Pid); err != nil || s.Class != kernel.Other {
					t.Errorf("undone, the new process has %+v, %v", s, err)
				}
				l.asBefore()
				if len(j.Entries()) > 0 {
					t.Errorf("entries %v", j.Entries())
				}
			})
		})
	}
}

// TestLiveLeftDuringTheApply checks that the entry stays if all threads leave a group, and the group ends, during an
// apply. A rollback then restores the threads.
func TestLiveLeftDuringTheApply(t *testing.T) {
	l := newLeft(t)
	ended := false
	a, j := l.applier(func(s apply.Step, _ plan.Target) {
		if s == apply.StepWritten && !ended {
			ended = true
			l.leave()
			l.end()
		}
	})
	if r := l.apply(a, l.target); !errors.Is(r.Err, apply.ErrGone) || !r.Wrote {
		t.Errorf("%+v", r)
	}
	must(t, j.Close())
	l.again()
	l.with(func(a *apply.Applier, j *journal.Journal) {
		l.restored(a, apply.OutcomeRestored)
		l.asBefore()
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
	})
}
