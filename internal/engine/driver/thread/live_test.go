package thread_test

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/child"
)

const boot = "0f0f0f0f-boot"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// unit is a real group with two groups below it, and a process in each of these.
type unit struct {
	t          *testing.T
	host       *cgroup.Host
	top, below *scratch.Group
	first      *child.Child // all its threads are SCHED_OTHER, one has a nice value
	second     *child.Child // all its threads are SCHED_BATCH
	dir        string
}

func newUnit(t *testing.T) *unit {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	u := &unit{t: t, dir: t.TempDir()}
	u.host, err = cgroup.Open(root)
	must(t, err)
	u.top, err = scratch.New(u.host, "", scratch.Name("test-thread"))
	must(t, err)
	t.Cleanup(func() {
		if err := u.top.Close(); err != nil {
			t.Error(err)
		}
	})
	u.below, err = u.top.Sub("below")
	must(t, err)
	leaf, err := u.top.Sub("leaf")
	must(t, err)
	u.first, u.second = u.start(leaf), u.start(u.below)
	must(t, syscall.Setpriority(syscall.PRIO_PROCESS, u.first.Process.Pid, 5))
	u.change(func(tid int) bool { return u.process(tid) == u.second.Process.Pid }, func(s *kernel.Scheduled) { s.Class = kernel.Batch })
	return u
}

// TestChild is the main function of a process of a unit.
func TestChild(t *testing.T) {
	child.Serve(t, func(what string) error {
		if what == "threads" {
			startThreads()
		}
		return nil
	})
}

func (u *unit) start(g *scratch.Group) *child.Child {
	u.t.Helper()
	return child.Start(u.t, g.Attach)
}

func (u *unit) process(tid int) int {
	pid, err := kernel.ThreadProcess(tid)
	if err != nil {
		return 0 // gone
	}
	return pid
}

func (u *unit) parent(tid int) int {
	pid, err := kernel.ThreadParent(tid)
	if err != nil {
		return 0 // gone
	}
	return pid
}

// has returns the scheduling attributes of every thread of the group.
func (u *unit) has() map[int]kernel.Scheduled {
	u.t.Helper()
	tids, _, err := u.host.ThreadIDs(u.top.Handle())
	must(u.t, err)
	all := map[int]kernel.Scheduled{}
	for _, tid := range tids {
		s, err := kernel.ThreadScheduled(tid)
		if errors.Is(err, syscall.ESRCH) {
			continue
		}
		must(u.t, err)
		all[tid] = s
	}
	return all
}

// change changes threads as another program would.
func (u *unit) change(which func(int) bool, how func(*kernel.Scheduled)) {
	u.t.Helper()
	for tid, s := range u.has() {
		if which(tid) {
			s.Slice = 0
			how(&s)
			must(u.t, hostwrite.Scheduled(tid, s))
		}
	}
}

// all checks the attributes of every thread of the group with ok.
func (u *unit) all(when string, ok func(kernel.Scheduled) bool) {
	u.t.Helper()
	for tid, s := range u.has() {
		if !ok(s) {
			u.t.Errorf("%s: thread %d of process %d has %+v", when, tid, u.process(tid), s)
		}
	}
}

// asBefore checks that the earlier threads have their original attributes, and that threads started since then have the
// class begins. Threads that the second process started have its class.
func (u *unit) asBefore(when string, before map[int]kernel.Scheduled, begins kernel.Class) {
	u.t.Helper()
	for tid, s := range u.has() {
		was, known := before[tid]
		switch {
		case known && s != was:
			u.t.Errorf("%s: thread %d has %+v, had %+v", when, tid, s, was)
		case !known && s.Class != begins && u.process(tid) != u.second.Process.Pid && u.parent(tid) != u.second.Process.Pid:
			u.t.Errorf("%s: a new thread %d has %+v", when, tid, s)
		}
	}
}

func (u *unit) applier(step func(apply.Step, plan.Target)) (*apply.Applier, *journal.Journal) {
	u.t.Helper()
	return u.asking(kernel.DefaultThreadSlice, step)
}

// asking returns an applier that uses base for the slice of a thread without a slice of its own.
func (u *unit) asking(base thread.Slice, step func(apply.Step, plan.Target)) (*apply.Applier, *journal.Journal) {
	u.t.Helper()
	j, err := journal.Open(u.dir, boot, thread.Values())
	must(u.t, err)
	return apply.New(thread.Kinds(u.host, base), j, apply.Options{Step: step}), j
}

// with calls f with an applier and a journal, as a command uses them.
func (u *unit) with(f func(*apply.Applier, *journal.Journal)) {
	u.t.Helper()
	a, j := u.applier(nil)
	f(a, j)
	must(u.t, j.Close())
}

// apply gives all threads of the group the value that the target names.
func (u *unit) apply(a *apply.Applier, target plan.Target) apply.Result {
	u.t.Helper()
	stands := a.Read([]plan.Target{target})[0]
	must(u.t, stands.Err)
	c := plan.Change{Setting: plan.Setting{Target: target, ID: stands.ID, Value: thread.All, Owner: "tune", Workload: "p"}, From: stands.Value}
	must(u.t, a.Record([]plan.Change{c}))
	return a.Apply([]plan.Change{c})[0]
}

// restored restores everything on record, and checks the outcome.
func (u *unit) restored(a *apply.Applier, want apply.Outcome) {
	u.t.Helper()
	all := a.Restore(nil, false)
	if len(all) != 1 || all[0].Outcome != want {
		u.t.Errorf("%+v, want %s", all, want)
	}
}

// TestLiveThreadsThatLeft checks that threads on record get back their attributes even after they were moved to another
// group.
func TestLiveThreadsThatLeft(t *testing.T) {
	u := newUnit(t)
	other, err := scratch.New(u.host, "", scratch.Name("test-left"))
	must(t, err)
	t.Cleanup(func() {
		must(t, u.first.Process.Kill())
		_ = u.first.Wait() // it was killed
		if err := other.Close(); err != nil {
			t.Error(err)
		}
	})
	pid := u.first.Process.Pid
	before, err := kernel.ThreadScheduled(pid)
	must(t, err)
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		if r := u.apply(a, thread.PolicyTarget(u.top.Path(), "idle")); r.Err != nil {
			t.Fatalf("%+v", r)
		}
	})
	must(t, other.Attach(pid))
	if now, err := kernel.ThreadScheduled(pid); err != nil || now.Class != kernel.Idle {
		t.Fatalf("in the other group it has %+v, %v", now, err)
	}
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		u.restored(a, apply.OutcomeRestored)
	})
	if now, err := kernel.ThreadScheduled(pid); err != nil || now != before {
		t.Errorf("undone, it has %+v, %v; it had %+v", now, err, before)
	}
}

// TestLivePolicy checks that all threads of a group get a policy. The undo restores the class and nice value of each
// earlier thread, and gives threads that were forked since then the class that their parent process had.
func TestLivePolicy(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	target := thread.PolicyTarget(u.top.Path(), "idle")
	var ofFirst, ofSecond int
	u.with(func(a *apply.Applier, j *journal.Journal) {
		if r := u.apply(a, target); r.Err != nil || !r.Wrote || r.Effective != thread.All {
			t.Fatalf("%+v", r)
		}
		ofFirst, ofSecond = u.first.Tell("fork"), u.second.Tell("fork")
		u.all("applied", func(s kernel.Scheduled) bool { return s.Class == kernel.Idle })
		if now := a.Read([]plan.Target{target})[0]; now.Value != thread.All || now.Err != nil {
			t.Errorf("%+v", now)
		}
		if dry := apply.Compare(thread.Kinds(u.host, kernel.DefaultThreadSlice), j.Entries()); len(dry) != 1 || dry[0].Outcome != apply.OutcomeRestored {
			t.Errorf("a dry run: %+v", dry)
		}
	})
	u.with(func(a *apply.Applier, j *journal.Journal) { // as after a kill
		u.restored(a, apply.OutcomeRestored)
		u.asBefore("undone", before, kernel.Other)
		for pid, class := range map[int]kernel.Class{ofFirst: kernel.Other, ofSecond: kernel.Batch} {
			if s, err := kernel.ThreadScheduled(pid); err != nil || s.Class != class {
				t.Errorf("undone: a forked process has %+v, %v, want %v", s, err, class)
			}
		}
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
		if now := a.Read([]plan.Target{target})[0]; now.Value != thread.None || now.Err != nil {
			t.Errorf("%+v", now)
		}
	})
}

// TestLiveSlice checks that the undo restores a thread's own slice, and that the other threads follow the default
// again. That includes a slice that equals the default.
func TestLiveSlice(t *testing.T) {
	u := newUnit(t)
	base, err := kernel.DefaultThreadSlice()
	must(t, err)
	if base == 0 {
		u.with(func(a *apply.Applier, j *journal.Journal) {
			if now := a.Read([]plan.Target{thread.SliceTarget(u.top.Path(), "7ms")})[0]; !errors.Is(now.Err, kernel.ErrNotSupported) {
				t.Errorf("%+v", now)
			}
		})
		return
	}
	const own = 5 * time.Millisecond
	must(t, hostwrite.Scheduled(u.first.Process.Pid, kernel.Scheduled{Nice: 5, Slice: own}))
	u.change(func(tid int) bool { return tid != u.first.Process.Pid }, func(*kernel.Scheduled) {})
	before := u.has()
	for _, slice := range []time.Duration{7 * time.Millisecond, base} {
		u.with(func(a *apply.Applier, j *journal.Journal) {
			if r := u.apply(a, thread.SliceTarget(u.top.Path(), slice.String())); r.Err != nil || !r.Wrote {
				t.Fatalf("%+v", r)
			}
			u.all("applied", func(s kernel.Scheduled) bool { return s.Slice == slice })
			u.restored(a, apply.OutcomeRestored)
			u.asBefore("undone", before, kernel.Other)
			if len(j.Entries()) > 0 {
				t.Errorf("entries %v", j.Entries())
			}
		})
	}
	if was := before[u.first.Process.Pid].Slice; was != own {
		t.Errorf("the slice was %v", was)
	}
}

// TestLiveSliceOverAPolicy checks that the undo restores a thread's own slice after a class without slices removed it.
func TestLiveSliceOverAPolicy(t *testing.T) {
	u := newUnit(t)
	base, err := kernel.DefaultThreadSlice()
	must(t, err)
	if base > 0 {
		must(t, hostwrite.Scheduled(u.first.Process.Pid, kernel.Scheduled{Nice: 5, Slice: 5 * time.Millisecond}))
	}
	before := u.has()
	for _, policy := range []string{"idle", "batch"} {
		u.with(func(a *apply.Applier, _ *journal.Journal) {
			if r := u.apply(a, thread.PolicyTarget(u.top.Path(), policy)); r.Err != nil {
				t.Fatalf("%+v", r)
			}
			u.restored(a, apply.OutcomeRestored)
			u.asBefore(policy+" undone", before, kernel.Other)
		})
	}
}

// TestLiveAnotherWriter checks that a thread keeps the policy that another program gave it, and that the undo reports
// this and restores the other threads. Once the thread has its original policy, nothing is left to undo.
func TestLiveAnotherWriter(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	isFirst := func(tid int) bool { return tid == u.first.Process.Pid }
	u.with(func(a *apply.Applier, j *journal.Journal) {
		if r := u.apply(a, thread.PolicyTarget(u.top.Path(), "idle")); r.Err != nil {
			t.Fatalf("%+v", r)
		}
		u.change(isFirst, func(s *kernel.Scheduled) { s.Class = kernel.Batch })
		all := a.Restore(nil, false)
		if len(all) != 1 || all[0].Outcome != apply.OutcomeFailed || !errors.Is(all[0].Err, apply.ErrChanged) {
			t.Errorf("%+v", all)
		}
		u.restored(a, apply.OutcomeDrifted)
		if found := a.Restore(nil, false)[0].Found; !strings.Contains(string(found), "has batch, had other") {
			t.Errorf("found %q", found)
		}
		if s := u.has()[u.first.Process.Pid]; s.Class != kernel.Batch {
			t.Errorf("the other program's thread has %+v", s)
		}
		u.change(isFirst, func(s *kernel.Scheduled) { s.Class = kernel.Other })
		u.restored(a, apply.OutcomeAlready)
		u.asBefore("undone", before, kernel.Other)
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
	})
}

// TestLiveRealTime checks that a group without a budget for real-time threads returns an error that says so, and that
// the threads already changed are restored. With a budget, all threads get the policy and its priority.
func TestLiveRealTime(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	u.with(func(a *apply.Applier, j *journal.Journal) {
		r := u.apply(a, thread.PolicyTarget(u.top.Path(), "fifo:10"))
		if r.Err == nil {
			u.all("applied", func(s kernel.Scheduled) bool { return s.Class == kernel.FIFO && s.Priority == 10 })
		} else if !errors.Is(r.Err, kernel.ErrNotSupported) || !strings.Contains(r.Err.Error(), "no budget for real-time threads") {
			t.Errorf("%+v", r)
		}
		for _, line := range a.Restore(nil, false) {
			if line.Err != nil {
				t.Errorf("%+v", line)
			}
		}
		u.asBefore("undone", before, kernel.Other)
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
	})
}

// killed is the panic value that stands for a SIGKILL within one process.
type killed struct{}

// TestLiveCrash checks that the next command restores every thread, at whatever step an apply is killed, also between
// two threads. The restoring command may be killed at any step as well.
func TestLiveCrash(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	target := thread.PolicyTarget(u.top.Path(), "idle")
	threads := len(before)
	for step := 1; ; step++ {
		died := u.dies(step, func(a *apply.Applier) { u.apply(a, target) })
		again := step
		for u.dies(again, func(a *apply.Applier) { a.Restore(nil, false) }) {
			again++
		}
		u.with(func(a *apply.Applier, j *journal.Journal) {
			a.Restore(nil, false)
			u.asBefore(fmt.Sprintf("killed at step %d", step), before, kernel.Other)
			if len(j.Entries()) > 0 {
				t.Fatalf("killed at step %d: entries %v", step, j.Entries())
			}
		})
		if !died {
			if step <= threads {
				t.Errorf("only %d steps for %d threads", step, threads)
			}
			return
		}
	}
}

// dies runs f as a command that is killed at a step, and reports whether f reached that step.
func (u *unit) dies(fatal int, f func(*apply.Applier)) (died bool) {
	u.t.Helper()
	n := 0
	a, j := u.applier(func(apply.Step, plan.Target) {
		if n++; n == fatal {
			panic(killed{})
		}
	})
	defer func() {
		if r := recover(); r != nil {
			if _, is := r.(killed); !is {
				panic(r)
			}
			died = true
		}
		must(u.t, j.Close()) // gives the lock back, as the kernel does
	}()
	f(a)
	return false
}

// TestLiveGoneGroup checks that nothing is left to restore if the threads ended and the group was removed.
func TestLiveGoneGroup(t *testing.T) {
	u := newUnit(t)
	u.with(func(a *apply.Applier, j *journal.Journal) {
		if r := u.apply(a, thread.PolicyTarget(u.top.Path(), "idle")); r.Err != nil {
			t.Fatalf("%+v", r)
		}
		for _, c := range []*child.Child{u.first, u.second} {
			must(t, c.Process.Kill())
			_ = c.Wait() // it was killed
		}
		must(t, u.top.Close())
		u.restored(a, apply.OutcomeGone)
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", slices.Collect(slices.Values(j.Entries())))
		}
		var err error
		u.top, err = scratch.New(u.host, "", scratch.Name("test-thread"))
		must(t, err)
	})
}
