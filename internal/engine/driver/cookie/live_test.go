package cookie_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cookie"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/test/child"
	"github.com/berth-project/berth/test/crash"
)

const boot = "0f0f0f0f-boot"

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// batch is a real group of offline work with two below it, which have the processes.
type batch struct {
	t                *testing.T
	host             *cgroup.Host
	top, below, next *scratch.Group
}

func newBatch(t *testing.T) *batch {
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
	b := &batch{t: t}
	b.host, err = cgroup.Open(root)
	must(t, err)
	b.top, err = scratch.New(b.host, "", scratch.Name("test-cookie"))
	must(t, err)
	t.Cleanup(func() {
		if err := b.top.Close(); err != nil {
			t.Error(err)
		}
	})
	b.below, err = b.top.Sub("below")
	must(t, err)
	b.next, err = b.top.Sub("next")
	must(t, err)
	return b
}

// TestChild is a process of a group. It gives itself a cookie of its own where it is told to.
func TestChild(t *testing.T) {
	child.Serve(t, func(what string) error {
		if what != "own" {
			return nil
		}
		return unix.Prctl(unix.PR_SCHED_CORE, unix.PR_SCHED_CORE_CREATE, 0, unix.PR_SCHED_CORE_SCOPE_THREAD_GROUP, 0)
	})
}

func (b *batch) start(g *scratch.Group) *child.Child {
	b.t.Helper()
	return child.Start(b.t, g.Attach)
}

// cookies counts the threads of a group by their cookie.
func (b *batch) cookies() map[coresched.Cookie]int {
	b.t.Helper()
	tids, _, err := b.host.ThreadIDs(b.top.Handle())
	must(b.t, err)
	all := map[coresched.Cookie]int{}
	for _, tid := range tids {
		c, err := coresched.Of(tid)
		if errors.Is(err, coresched.ErrGone) {
			continue
		}
		must(b.t, err)
		all[c]++
	}
	return all
}

// only says that the threads of the group have these cookies and no others.
func (b *batch) only(when string, want ...coresched.Cookie) {
	b.t.Helper()
	got := b.cookies()
	for c := range maps.Keys(got) {
		if !slices.Contains(want, c) {
			b.t.Fatalf("%s: threads by cookie %v, want none but of %v", when, got, want)
		}
	}
	for _, c := range want {
		if got[c] == 0 {
			b.t.Fatalf("%s: threads by cookie %v, want some of each of %v", when, got, want)
		}
	}
}

// change plans that all threads have the cookie, or none, from what stands.
func (b *batch) change(a *apply.Applier, c coresched.Cookie, v plan.Value) plan.Change {
	b.t.Helper()
	target := cookie.Target(b.top.Path(), c)
	stands := a.Read([]plan.Target{target})[0]
	must(b.t, stands.Err)
	return plan.Change{Setting: plan.Setting{Target: target, ID: stands.ID, Value: v, Owner: plan.OwnerIsolate, Workload: "batch"}, From: stands.Value}
}

func (b *batch) applied(a *apply.Applier, c plan.Change) {
	b.t.Helper()
	if r := a.Apply([]plan.Change{c})[0]; r.Err != nil || !r.Wrote || r.Effective != c.Value {
		b.t.Fatalf("%+v", r)
	}
}

func (b *batch) applier(dir string, step func(apply.Step, plan.Target)) (*apply.Applier, *journal.Journal) {
	b.t.Helper()
	j, err := journal.Open(dir, boot, cookie.Values())
	must(b.t, err)
	b.t.Cleanup(func() { _ = j.Close() })
	return apply.New(cookie.Kinds(b.host), j, apply.Options{Step: step}), j
}

// hold makes a cookie, which is held until the test ends.
func (b *batch) hold() *coresched.Held {
	b.t.Helper()
	held, err := coresched.Hold()
	must(b.t, err)
	b.t.Cleanup(held.Close)
	return held
}

// restored has all that stands put back.
func (b *batch) restored(a *apply.Applier) {
	b.t.Helper()
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored {
			b.t.Errorf("%+v", r)
		}
	}
}

// supported says whether this kernel has cookies, and checks that it says so if not.
func (b *batch) supported() bool {
	b.t.Helper()
	if support, _ := kernel.CoreScheduling(); support == kernel.Supported {
		return true
	}
	b.start(b.below)
	a, j := b.applier(b.t.TempDir(), nil)
	target := cookie.Target(b.top.Path(), 7)
	stands := a.Read([]plan.Target{target})[0]
	if stands.Err == nil {
		b.t.Errorf("the kernel has no core scheduling, and %s is %s", target, stands.Value)
	}
	r := a.Apply([]plan.Change{{Setting: plan.Setting{Target: target, ID: stands.ID, Value: cookie.All}, From: cookie.None}})[0]
	if r.Err == nil || r.Wrote || len(j.Entries()) > 0 {
		b.t.Errorf("%+v, entries %v", r, j.Entries())
	}
	return false
}

// All threads of a group have the cookie, also those of a process that joins later; what they
// fork has it at once; a cookie of a process's own stays; and none has it in the end.
func TestLiveCookieOfAGroup(t *testing.T) {
	b := newBatch(t)
	if !b.supported() {
		return
	}
	held := b.hold()
	one, other := b.start(b.next), b.start(b.below)
	a, j := b.applier(t.TempDir(), nil)
	b.only("before", 0)
	b.applied(a, b.change(a, held.ID(), cookie.All))
	b.only("after the write", held.ID())
	for _, c := range []*child.Child{one, other} {
		if got, err := coresched.Of(c.Tell("fork")); err != nil || got != held.ID() {
			t.Errorf("a fork has cookie %s, %v, want %s", got, err, held.ID())
		}
	}

	b.start(b.below)
	b.only("after a process joined", held.ID(), 0)
	if c := b.change(a, held.ID(), cookie.All); c.From != cookie.Some {
		t.Errorf("the value is %s, want %s", c.From, cookie.Some)
	} else {
		b.applied(a, c)
	}
	b.only("after the second write", held.ID())

	one.Tell("own")
	own, err := coresched.Of(one.Process.Pid)
	must(t, err)
	b.only("after a process made a cookie of its own", held.ID(), own)
	if c := b.change(a, held.ID(), cookie.All); c.From != cookie.All {
		t.Errorf("the value is %s, want %s: a cookie of its own is none that lacks", c.From, cookie.All)
	}
	if e, known := j.Entry(cookie.Target(b.top.Path(), held.ID())); !known || e.Original != cookie.None {
		t.Errorf("entry %+v", e)
	}
	b.restored(a)
	b.only("in the end", 0, own)
	if len(j.Entries()) > 0 {
		t.Errorf("entries %v", j.Entries())
	}
}

// Another cookie than the journaled one stays: the next agent's, or another program's.
func TestLiveCookieOfAnotherAgent(t *testing.T) {
	b := newBatch(t)
	if !b.supported() {
		return
	}
	first, err := coresched.Hold()
	must(t, err)
	b.start(b.below)
	dir := t.TempDir()
	a, j := b.applier(dir, nil)
	b.applied(a, b.change(a, first.ID(), cookie.All))
	first.Close()
	must(t, j.Close())
	b.only("after the end of the agent", first.ID())

	a, _ = b.applier(dir, nil)
	next := b.hold()
	late := b.start(b.below)
	b.applied(a, b.change(a, next.ID(), cookie.All))
	b.only("beside what the last agent left", first.ID(), next.ID())
	left := func(e journal.Entry) bool { return e.Target == cookie.Target(b.top.Path(), first.ID()) }
	for _, r := range a.Restore(left, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored {
			t.Errorf("%+v", r)
		}
	}
	b.only("after what the last agent left was put back", 0, next.ID())
	if got, err := coresched.Of(late.Process.Pid); err != nil || got != next.ID() {
		t.Errorf("the later process has cookie %s, %v", got, err)
	}
	crash.Undone(t, "in the end", a.Restore(nil, false))
	b.only("in the end", 0)
}

// Without the right to trace them, processes of others are neither looked at nor changed, and the
// error says what is missing.
func TestLiveCookieNeedsRights(t *testing.T) {
	b := newBatch(t)
	if !b.supported() {
		return
	}
	held := b.hold()
	b.start(b.below)
	looked := make(chan error)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends without its capabilities
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var none [2]unix.CapUserData
		if err := unix.Capset(&header, &none[0]); err != nil {
			looked <- err
			return
		}
		now, err := cookie.Look(b.host, b.top.Handle(), held.ID())
		if err == nil {
			err = fmt.Errorf("the threads are %v", now)
		}
		looked <- err
	}()
	if err := <-looked; !errors.Is(err, cookie.ErrUnseen) || !strings.Contains(err.Error(), "hostPID and CAP_SYS_PTRACE") {
		t.Errorf("without capabilities: %v", err)
	}
	b.only("after the look", 0)
}

// While no core has two threads the cookie is not in force: a rollback says so and keeps it on record. It
// puts it back once it is in force again, when the threads have it still.
func TestLiveCookieWithoutSiblings(t *testing.T) {
	b := newBatch(t)
	if !b.supported() {
		return
	}
	const control = "/sys/devices/system/cpu/smt/control"
	held := b.hold()
	b.start(b.below)
	a, j := b.applier(t.TempDir(), nil)
	b.applied(a, b.change(a, held.ID(), cookie.All))
	siblings := func(state string) { must(t, os.WriteFile(control, []byte(state), 0)) }
	t.Cleanup(func() { siblings("on") })
	siblings("off")
	for range 2 {
		for _, r := range a.Restore(nil, false) {
			if r.Err != nil || r.Outcome != apply.OutcomeDormant || len(j.Entries()) != 1 {
				t.Errorf("without siblings: %+v, entries %v", r, j.Entries())
			}
		}
	}
	siblings("on")
	b.only("with siblings again", held.ID())
	b.restored(a)
	b.only("in the end", 0)
}

// crashGroup is the group that the crash test hands its child.
const crashGroup = "BERTH_TEST_CRASH_GROUP"

// TestCrashChild is the agent that dies; else it does nothing.
func TestCrashChild(t *testing.T) {
	agent, ok := crash.Asked(t)
	if !ok {
		return
	}
	root, err := hostfs.Open("/")
	must(t, err)
	b := &batch{t: t}
	b.host, err = cgroup.Open(root)
	must(t, err)
	a, _ := b.applier(agent.Dir, agent.Step)
	held := b.hold()
	target := cookie.Target(os.Getenv(crashGroup), held.ID())
	stands := a.Read([]plan.Target{target})[0]
	must(t, stands.Err)
	s := plan.Setting{Target: target, ID: stands.ID, Value: cookie.All, Owner: plan.OwnerIsolate}
	if r := a.Apply([]plan.Change{{Setting: s, From: stands.Value}})[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	b.restored(a)
}

// The agent dies by SIGKILL between every two steps; each time another process takes the cookie
// from every thread.
func TestLiveCookieOutlivesNoCrash(t *testing.T) {
	b := newBatch(t)
	if !b.supported() {
		return
	}
	b.start(b.next)
	b.start(b.below)
	dir := t.TempDir()
	crash.Steps(t, 8, func(step int) bool {
		killed := crash.At(t, dir, step, crashGroup+"="+b.top.Path())
		a, j := b.applier(dir, nil)
		when := fmt.Sprintf("killed at step %d", step)
		crash.Undone(t, when, a.Restore(nil, false))
		if len(j.Entries()) > 0 {
			t.Errorf("%s: entries %v", when, j.Entries())
		}
		must(t, j.Close())
		b.only(when, 0)
		return killed
	})
}
