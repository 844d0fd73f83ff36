package reconcile_test

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// sleepEnv makes the test binary wait to be killed.
const sleepEnv = "BERTH_TEST_SLEEP"

func TestMain(m *testing.M) {
	if os.Getenv(sleepEnv) != "" {
		time.Sleep(time.Hour)
		return
	}
	os.Exit(m.Run())
}

const (
	boot   = "11111111-2222-3333-4444-555555555555"
	period = unit.Micros(100_000)
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// live is the real host with two pods: pod/c is a container in one pod, and other and third are containers elsewhere.
type live struct {
	*testing.T
	host                    *cgroup.Host
	journal                 *journal.Journal
	reconciler              *reconcile.Reconciler
	now                     time.Duration
	dir                     string
	top, pod, c, other      *scratch.Group
	low, high, all, allMems cpuset.Set
	answered                func(group string, mems bool, list cpuset.Set) bool
	held                    func(plan.Target) error
	// kinds are the agent's writers; nil for the writers of package cgroupfile.
	kinds apply.Kinds
}

func newLive(t *testing.T) *live {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { root.Close() })
	l := &live{T: t, dir: t.TempDir()}
	l.host, err = cgroup.Open(root)
	must(t, err)
	for _, c := range cgroup.Controllers() {
		if hier, err := l.host.Hierarchy(c); err != nil || hier.ReadOnly {
			t.Skipf("controller %s: %+v, %v; runs in the VM: make test", c, hier, err)
		}
	}
	l.top, err = scratch.New(l.host, "", scratch.Name("test-reconcile"))
	must(t, err)
	t.Cleanup(func() { must(t, l.top.Close()) })
	l.pod, l.other = l.sub(l.top, "pod"), l.sub(l.top, "other")
	l.c = l.sub(l.pod, "c")
	must(t, l.pod.SetMax(2*period, period))
	must(t, l.c.SetMax(2*period, period))
	l.all, err = l.top.Handle().EffectiveCPUs()
	must(t, err)
	l.allMems, err = l.top.Handle().EffectiveMems()
	must(t, err)
	low, _ := l.all.Min()
	high, _ := l.all.Max()
	if low == high {
		t.Skip("needs two CPUs; runs in the VM: make test")
	}
	l.low, l.high = cpuset.Set{}.Add(low), cpuset.Set{}.Add(high)
	l.start()
	return l
}

// start starts an agent, or a second agent after the first has died.
func (l *live) start() {
	l.Helper()
	if l.journal != nil {
		must(l.T, l.reconciler.Close())
		must(l.T, l.journal.Close())
	}
	var err error
	l.journal, err = journal.Open(l.dir, boot, cgroupfile.Values())
	must(l.T, err)
	j, kinds := l.journal, l.kinds
	if kinds == nil {
		kinds = cgroupfile.Kinds(l.host, nil)
	}
	l.Cleanup(func() { _ = j.Close() })
	l.reconciler = reconcile.New(reconcile.Options{
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool, plan.OwnerIsolate}, Host: l.host, Journal: l.journal, Applier: apply.New(kinds, l.journal, apply.Options{}),
		Answered: func(group string, mems bool, list cpuset.Set) bool {
			return l.answered != nil && l.answered(group, mems, list)
		},
		Held: l.held,
	})
	k := l.reconciler
	l.Cleanup(func() { _ = k.Close() })
}

func (l *live) sub(g *scratch.Group, name string) *scratch.Group {
	l.Helper()
	s, err := g.Sub(name)
	must(l.T, err)
	return s
}

// pinned desires the container on the high CPU without a quota, and the other container on the remaining CPUs.
func (l *live) pinned() []reconcile.Group {
	return []reconcile.Group{
		{Group: l.c.Path(), CPUs: l.high, Pinned: true, NoQuota: true, Workload: "ns/pod", Why: "pinned"},
		{Group: l.pod.Path(), NoQuota: true, Workload: "ns/pod", Why: "its container is pinned"},
		{Group: l.other.Path(), CPUs: l.all.Difference(l.high), Workload: "ns/pod", Why: "ns/pod is pinned"},
	}
}

// pass makes a pass the given time after the last one and fails unless everything is applied.
func (l *live) pass(after time.Duration) reconcile.Report {
	l.Helper()
	r := l.try(after)
	for _, s := range r.Groups {
		if s.State != reconcile.StateApplied {
			l.Fatalf("%s is %s: %s", s.Group, s.State, s.Reason)
		}
	}
	if len(r.Errors) > 0 || len(r.Events) > 0 {
		l.Fatalf("errors %v, events %v", r.Errors, r.Events)
	}
	return r
}

func (l *live) try(after time.Duration) reconcile.Report {
	l.Helper()
	l.now += after
	r, next := l.reconciler.Pass(l.now)
	if next > 15*time.Second {
		l.Errorf("next pass after %v", next)
	}
	return r
}

// has checks the effective CPUs and the quota in the kernel.
func (l *live) has(g *scratch.Group, want cpuset.Set, quota unit.Micros) {
	l.Helper()
	got, err := g.Handle().EffectiveCPUs()
	must(l.T, err)
	b, err := g.Handle().Bandwidth()
	must(l.T, err)
	if got != want || b.Quota != quota {
		l.Errorf("%s has %s, quota %d; want %s, %d", g.Path(), got, b.Quota, want, quota)
	}
}

// files returns the content of every file of the tree that Berth may write.
func (l *live) files() map[string]string {
	l.Helper()
	content := map[string]string{}
	for _, c := range []cgroup.Controller{cgroup.CPU, cgroup.CPUSet} {
		hier, err := l.host.Hierarchy(c)
		must(l.T, err)
		top := filepath.Join(hier.Mount, l.top.Path())
		must(l.T, filepath.WalkDir(top, func(path string, _ os.DirEntry, err error) error {
			name := filepath.Base(path)
			if err != nil || !strings.HasPrefix(name, "cpu.max") && !strings.HasPrefix(name, "cpu.cfs") &&
				!strings.HasPrefix(name, "cpuset.") || strings.HasSuffix(name, "memory_pressure") {
				return err
			}
			data, err := os.ReadFile(path)
			content[path] = string(data)
			return err
		}))
	}
	return content
}

func (l *live) same(before map[string]string) {
	l.Helper()
	if d := cmp.Diff(before, l.files()); d != "" {
		l.Fatalf("files differ (-before +now):\n%s", d)
	}
}

func TestPinAndGiveBack(t *testing.T) {
	l := newLive(t)
	before := l.files()
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	if r := l.pass(0); r.Writes != 4 {
		t.Errorf("%d writes, want 4", r.Writes)
	}
	l.has(l.c, l.high, unit.NoLimit)
	l.has(l.pod, l.all, unit.NoLimit)
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
	for _, s := range l.try(0).Groups {
		if s.Group == l.c.Path() && s.CPUs != l.high {
			t.Errorf("status says %s", s.CPUs)
		}
	}
	during := l.files()
	if r := l.pass(20 * time.Second); r.Writes != 0 {
		t.Errorf("%d writes to settled groups", r.Writes)
	}
	// An agent that is restarted after a crash changes nothing.
	l.start()
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	if r := l.pass(0); r.Writes != 0 {
		t.Errorf("%d writes after a start", r.Writes)
	}
	l.same(during)
	l.reconciler.Want(nil)
	if r := l.pass(time.Second); r.Restored != 4 {
		t.Errorf("%d put back, want 4", r.Restored)
	}
	l.same(before)
	if n := len(l.journal.Entries()); n > 0 {
		t.Errorf("%d entries left", n)
	}
}

// Each daemon-reload of systemd writes the answer to the runtime again, however often in a minute. Berth overwrites it
// each time. A list that was not an answer is another writer's.
func TestAnswerComesBack(t *testing.T) {
	l := newLive(t)
	before := l.files()
	l.answered = func(group string, mems bool, list cpuset.Set) bool {
		return group == l.c.Path() && !mems && list == l.low
	}
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	for range 3 {
		must(t, l.c.SetCPUs(l.low))
		l.pass(16 * time.Second)
		l.has(l.c, l.high, unit.NoLimit)
	}
	l.answered = nil
	must(t, l.c.SetCPUs(l.low))
	l.pass(16 * time.Second)
	must(t, l.c.SetCPUs(l.low))
	if r := l.try(16 * time.Second); len(r.Events) != 1 {
		t.Errorf("another writer's list: events %v", r.Events)
	}
	l.has(l.c, l.low, 2*period) // It has its limit again on CPUs that others use too.
	must(t, l.c.SetCPUs(l.high))
	l.reconciler.Want(nil)
	l.try(time.Second)
	l.same(before)
}

// A pinned group moves to other CPUs, and the other groups shrink to the shared pool and get the CPUs that it leaves.
func TestMove(t *testing.T) {
	l := newLive(t)
	before := l.files()
	desired := l.pinned()
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	desired[0].CPUs, desired[2].CPUs = l.low, l.all.Difference(l.low)
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(time.Second)
	l.has(l.c, l.low, unit.NoLimit)
	l.has(l.other, l.all.Difference(l.low), unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
}

// Another writer's value is overwritten once a minute. A value that returns is left, and when its writer stops, the
// group is written again.
func TestConflictOverCPUs(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	must(t, l.other.SetCPUs(l.all))
	if r := l.pass(15 * time.Second); r.Writes != 1 {
		t.Errorf("%d writes over a foreign value, want 1", r.Writes)
	}
	must(t, l.other.SetCPUs(l.all))
	r := l.try(15 * time.Second)
	if len(r.Events) != 1 || r.Events[0].Reason != v1alpha1.EventHostDrift || r.Writes != 0 {
		t.Errorf("a writer that insists: %+v", r)
	}
	l.has(l.other, l.all, unit.NoLimit)
	if r := l.try(time.Minute); len(r.Events) > 0 || r.Writes != 0 {
		t.Errorf("reported again: %+v", r)
	}
	if r := l.try(5 * time.Minute); r.Writes != 1 {
		t.Errorf("%d writes after it stopped, want 1", r.Writes)
	}
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
	must(t, l.other.SetCPUs(l.all)) // much later
	if r := l.pass(time.Hour); r.Writes != 1 {
		t.Errorf("%d writes an hour later, want 1", r.Writes)
	}
}

// A pinned group does not get a CPU on which another writer holds another group.
func TestOccupied(t *testing.T) {
	l := newLive(t)
	desired := l.pinned()[:1]
	desired[0].CPUs = l.low
	desired = append(desired, reconcile.Group{Group: l.other.Path(), CPUs: l.low})
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	for range 2 {
		must(t, l.other.SetCPUs(l.all))
		l.try(15 * time.Second)
	}
	desired[0].CPUs = l.high
	l.reconciler.Want(reconcile.Of(desired...))
	r := l.try(time.Second)
	for _, s := range r.Groups {
		if s.Owner == plan.OwnerPlace && (s.State != reconcile.StateFailed || !strings.Contains(s.Reason, l.other.Path())) {
			t.Errorf("%s: %s", s.State, s.Reason)
		}
	}
	l.has(l.c, l.low, unit.NoLimit)
	l.try(6 * time.Minute)
	l.pass(time.Minute)
	l.has(l.c, l.high, unit.NoLimit)
	l.has(l.other, l.low, unit.NoLimit)
}

// A group that waits for CPUs retains its present CPUs, so the next group must wait for it.
func TestOccupiedByAGroupThatWaits(t *testing.T) {
	l := newLive(t)
	third := l.sub(l.top, "third")
	desired := append(l.pinned()[:1], reconcile.Group{Group: l.other.Path(), CPUs: l.low},
		reconcile.Group{Group: third.Path(), CPUs: l.high, Pinned: true})
	desired[0].CPUs = l.low
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	for range 2 {
		must(t, l.other.SetCPUs(l.all))
		l.try(15 * time.Second)
	}
	desired[0].CPUs, desired[2].CPUs = l.high, l.low
	l.reconciler.Want(reconcile.Of(desired...))
	l.try(time.Second)
	if at := l.effective(third); at != l.high {
		t.Errorf("the third group is on %s, where the first one waits", at)
	}
	l.try(6 * time.Minute)
	l.pass(time.Minute)
	l.has(l.c, l.high, unit.NoLimit)
	if at := l.effective(third); at != l.low {
		t.Errorf("the third group is on %s in the end, want %s", at, l.low)
	}
}

// TestOccupiedByAGroupThatIsHeld: a new agent knows that a group which it may not write occupies its CPUs. A pinned
// group gets none of them.
func TestOccupiedByAGroupThatIsHeld(t *testing.T) {
	l := newLive(t)
	must(t, l.c.SetCPUs(l.low))
	must(t, l.other.SetCPUs(l.all))
	held := errors.New("a profile has it on record")
	l.held = func(target plan.Target) error {
		if target.Object == l.other.Path() {
			return held
		}
		return nil
	}
	l.start()
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	for range 3 {
		for _, s := range l.try(20 * time.Second).Groups {
			if s.Owner == plan.OwnerPlace && s.Group == l.c.Path() && (s.State != reconcile.StateFailed || !strings.Contains(s.Reason, l.other.Path())) {
				t.Errorf("%s: %s", s.State, s.Reason)
			}
		}
		l.has(l.c, l.low, 2*period)
	}
	held = nil
	l.try(time.Minute)
	l.pass(time.Minute)
	l.has(l.c, l.high, unit.NoLimit)
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
}

func (l *live) effective(g *scratch.Group) cpuset.Set {
	l.Helper()
	cpus, err := g.Handle().EffectiveCPUs()
	must(l.T, err)
	return cpus
}

// When nothing is desired any more, another writer's value is not overwritten with the original.
func TestConflictAtTheEnd(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	must(t, l.c.SetMax(period/2, period))
	must(t, l.other.SetCPUs(l.high))
	l.reconciler.Want(nil)
	r := l.try(time.Second)
	if len(r.Events) != 2 || r.Restored != 2 {
		t.Errorf("%+v", r)
	}
	l.has(l.c, l.all, period/2)
	l.has(l.other, l.high, unit.NoLimit)
	if r := l.try(time.Minute); len(r.Events) > 0 {
		t.Errorf("reported again: %+v", r)
	}
}

// A runtime's write of Berth's answer is not a conflict, and it is restored later.
func TestRuntimeWrites(t *testing.T) {
	l := newLive(t)
	before := l.files()
	desired := l.pinned()
	must(t, l.reconciler.Record(reconcile.Of(desired[2:]...)))
	l.same(before)
	l.reconciler.Want(reconcile.Of(desired...))
	must(t, l.other.SetCPUs(l.all.Difference(l.high)))
	if r := l.pass(0); r.Writes != 3 {
		t.Errorf("%d writes, want 3: the runtime made one of them", r.Writes)
	}
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
	// A runtime that did not write its answer, and a pass that writes it instead.
	must(t, l.reconciler.Record(reconcile.Of(desired...)))
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(time.Second)
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
	l.start()
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
}

// A container that the runtime created with Berth's answer has an original: the value that it would have had otherwise.
func TestMadeByTheRuntime(t *testing.T) {
	l := newLive(t)
	before := l.files()
	desired := reconcile.Group{Group: l.c.Path(), CPUs: l.high, Pinned: true, NoQuota: true, Made: true, Limit: 2, Workload: "ns/pod"}
	must(t, l.reconciler.Record(reconcile.Of([]reconcile.Group{{Group: l.top.Path() + "/new", CPUs: l.high, Pinned: true}}...))) // not there yet
	must(t, l.c.SetCPUs(l.high))
	must(t, l.c.SetMax(unit.NoLimit, period))
	l.reconciler.Want(reconcile.Of([]reconcile.Group{desired}...))
	if r := l.pass(0); r.Writes != 0 {
		t.Errorf("%d writes", r.Writes)
	}
	if n := len(l.journal.Entries()); n != 2 {
		t.Fatalf("%d entries, want 2: %v", n, l.journal.Entries())
	}
	for _, e := range l.journal.Entries() {
		if e.Owner != plan.OwnerPlace || e.Workload != "ns/pod" {
			t.Errorf("entry %+v", e)
		}
	}
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
}

// sleeper starts a process in the container.
func (l *live) sleeper() {
	l.Helper()
	sleeper := exec.CommandContext(l.Context(), os.Args[0], "-test.run=^$")
	sleeper.Env = append(os.Environ(), sleepEnv+"=1")
	must(l.T, sleeper.Start())
	l.Cleanup(func() { _ = sleeper.Process.Kill(); _ = sleeper.Wait() })
	must(l.T, l.c.Attach(sleeper.Process.Pid))
}

// A group with a process cannot have an empty list again. On v2 it gets a value that is equivalent to inheriting, also
// from a new agent.
func TestGiveBackBusy(t *testing.T) {
	l := newLive(t)
	l.sleeper()
	desired := l.pinned()[0]
	desired.Mems = l.allMems
	for range 2 {
		l.reconciler.Want(reconcile.Of([]reconcile.Group{desired}...))
		l.pass(0)
		l.has(l.c, l.high, unit.NoLimit)
		l.start()
		l.reconciler.Want(nil)
		if r := l.pass(time.Second); r.Restored != 3 && len(l.journal.Entries()) > 0 {
			t.Errorf("%d put back, left: %v", r.Restored, l.journal.Entries())
		}
		l.has(l.c, l.all, 2*period)
		if n := len(l.journal.Entries()); n > 0 {
			t.Errorf("left: %v", l.journal.Entries())
		}
	}
}

// Groups come, go, and return as different groups.
func TestGroupsComeAndGo(t *testing.T) {
	l := newLive(t)
	desired := append(l.pinned(), reconcile.Group{Group: l.top.Path() + "/late", CPUs: l.high, Pinned: true})
	l.reconciler.Want(reconcile.Of(desired...))
	states := func(r reconcile.Report) string {
		var words []string
		for _, s := range r.Groups {
			words = append(words, filepath.Base(s.Group)+" "+string(s.State))
		}
		return strings.Join(words, ", ")
	}
	if got := states(l.try(0)); got != "late pending, other applied, pod applied, c applied" {
		t.Errorf("%s", got)
	}
	late := l.sub(l.top, "late")
	l.pass(2 * time.Second)
	l.has(late, l.high, unit.NoLimit)
	must(t, l.other.Close())
	if got := states(l.try(20 * time.Second)); got != "late applied, other pending, pod applied, c applied" {
		t.Errorf("%s", got)
	}
	l.other = l.sub(l.top, "other")
	l.pass(2 * time.Second)
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
	must(t, l.other.Close())
	l.other = l.sub(l.top, "other")
	l.pass(20 * time.Second)
	l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
}

// A workload's group is pinned together with all groups below it.
func TestBelow(t *testing.T) {
	l := newLive(t)
	before := l.files()
	desired := reconcile.Group{Group: l.pod.Path(), CPUs: l.high, Pinned: true, NoQuota: true, Below: true}
	l.reconciler.Want(reconcile.Of([]reconcile.Group{desired}...))
	l.pass(0)
	l.has(l.pod, l.high, unit.NoLimit)
	l.has(l.c, l.high, 2*period)
	desired.CPUs = l.low // no CPU stays: the group above needs both in between
	l.reconciler.Want(reconcile.Of([]reconcile.Group{desired}...))
	l.pass(time.Second)
	l.has(l.c, l.low, 2*period)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.same(before)
}

// A write that the kernel refuses or ignores is reported once and tried again.
func TestCannotPin(t *testing.T) {
	l := newLive(t)
	must(t, l.other.SetCPUs(l.low))
	inner := l.sub(l.other, "inner")
	must(t, inner.SetMax(period, period))
	l.reconciler.Want(reconcile.Of([]reconcile.Group{{Group: inner.Path(), CPUs: l.high, Pinned: true, NoQuota: true, Workload: "ns/pod"}}...))
	events := 0
	for range 5 {
		r := l.try(2 * time.Second)
		if s := r.Groups[0]; s.State != reconcile.StateFailed || !strings.Contains(s.Reason, "the group above") {
			t.Fatalf("%s: %s", s.State, s.Reason)
		}
		events += len(r.Events)
		l.has(inner, l.low, period)
	}
	if events != 1 {
		t.Errorf("reported %d times, want once", events)
	}
	must(t, l.other.SetCPUs(l.all))
	l.pass(time.Minute)
	l.has(inner, l.high, unit.NoLimit)
}

// writingUnits is a systemd that writes the groups in dir. Like the real one, it leaves in the file a list that it
// should forget.
type writingUnits struct {
	t     *testing.T
	dir   string
	calls int
}

func (u *writingUnits) SetList(name string, k cgroup.Knob, v cgroup.Value) error {
	u.calls++
	if v == cgroup.Inherit {
		return nil
	}
	return os.WriteFile(filepath.Join(u.dir, name, string(k)), []byte(v), 0)
}

// On v2, systemd sets the CPUs of its units and restores them: in the file, which systemd leaves as it is, and for the
// running threads. On v1 systemd is not asked.
func TestUnits(t *testing.T) {
	l := newLive(t)
	before := l.files()
	// A group below l.top is not a unit of the system, because l.top is not a slice.
	scope, err := scratch.New(l.host, "", scratch.Name("test-reconcile")+".scope")
	must(t, err)
	t.Cleanup(func() { must(t, scope.Close()) })
	hier, err := l.host.Hierarchy(cgroup.CPUSet)
	must(t, err)
	tid := sleeper(t)
	must(t, scope.Attach(tid))
	runsOn := func(want cpuset.Set) {
		t.Helper()
		if has, err := kernel.ThreadAffinity(tid); err != nil || has != want {
			t.Errorf("the thread has CPUs %s, want %s: %v", has, want, err)
		}
	}
	units := &writingUnits{t: t, dir: hier.Mount}
	k := reconcile.New(reconcile.Options{
		Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool, plan.OwnerIsolate}, Host: l.host, Journal: l.journal, Systemd: true,
		Applier: apply.New(cgroupfile.Kinds(l.host, units), l.journal, apply.Options{}),
	})
	defer k.Close()
	k.Want(reconcile.Of([]reconcile.Group{{Group: scope.Path(), CPUs: l.high, Mems: l.allMems, Pinned: true}}...))
	if r, _ := k.Pass(0); r.Groups[0].State != reconcile.StateApplied {
		t.Errorf("%+v", r)
	}
	l.has(scope, l.high, unit.NoLimit)
	runsOn(l.high)
	for _, e := range l.journal.Entries() {
		if want := hier.Version == 2; (cgroupfile.Unit(e.Target) == scope.Path()) != want {
			t.Errorf("entry %+v", e)
		}
	}
	k.Want(nil)
	k.Pass(time.Second)
	l.has(scope, l.all, unit.NoLimit)
	runsOn(l.all)
	if want := map[int]int{1: 0, 2: 4}[hier.Version]; units.calls != want { // sets two lists and restores both
		t.Errorf("systemd was asked %d times, want %d", units.calls, want)
	}
	l.same(before)
}

// A new agent that has no desired settings yet does not restore everything.
func TestNothingBeforeTheFirstWant(t *testing.T) {
	l := newLive(t)
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	l.pass(0)
	during := l.files()
	l.start()
	must(t, l.reconciler.Record(reconcile.Of(l.pinned()[:1]...)))
	l.pass(time.Second)
	l.same(during)
}

// A full disk leaves everything as it is.
func TestJournalFull(t *testing.T) {
	l := newLive(t)
	before := l.files()
	must(t, l.journal.Close())
	l.reconciler.Want(reconcile.Of(l.pinned()...))
	r := l.try(0)
	for _, s := range r.Groups {
		if s.State != reconcile.StateFailed {
			t.Errorf("%s is %s", s.Group, s.State)
		}
	}
	if err := l.reconciler.Record(reconcile.Of(l.pinned()...)); !errors.Is(err, apply.ErrJournal) {
		t.Errorf("Record: %v", err)
	}
	l.same(before)
}

// BenchmarkSettled measures passes over 250 groups that are as desired: one read each, of open files.
func BenchmarkSettled(b *testing.B) {
	if os.Geteuid() != 0 {
		b.Skip("needs root")
	}
	root, err := hostfs.Open("/")
	if err != nil {
		b.Fatal(err)
	}
	defer root.Close()
	host, err := cgroup.Open(root)
	if err != nil {
		b.Fatal(err)
	}
	top, err := scratch.New(host, "", scratch.Name("bench-reconcile"))
	if err != nil {
		b.Fatal(err)
	}
	defer top.Close()
	j, err := journal.Open(b.TempDir(), boot, cgroupfile.Values())
	if err != nil {
		b.Fatal(err)
	}
	defer j.Close()
	var desired []reconcile.Group
	for i := range 250 {
		g, err := top.Sub(fmt.Sprint("c", i))
		if err != nil {
			b.Fatal(err)
		}
		cpus, _ := g.Handle().EffectiveCPUs()
		low, _ := cpus.Min()
		desired = append(desired, reconcile.Group{Group: g.Path(), CPUs: cpuset.Set{}.Add(low)})
	}
	k := reconcile.New(reconcile.Options{Owners: []plan.Owner{plan.OwnerPlace, plan.OwnerPool}, Host: host, Journal: j, Applier: apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{})})
	defer k.Close()
	k.Want(reconcile.Of(desired...))
	now := time.Duration(0)
	k.Pass(now)
	b.ResetTimer()
	for b.Loop() {
		now += time.Minute
		if r, _ := k.Pass(now); r.Writes > 0 {
			b.Fatal("written again")
		}
	}
	b.StopTimer()
	k.Want(nil)
	k.Pass(now)
}

// While a group's CPUs are not in effect, it has its limit again. Without a limit it could use all CPUs of the group
// above.
func TestLimitIsBackWithoutCPUs(t *testing.T) {
	l := newLive(t)
	hier, err := l.host.Hierarchy(cgroup.CPUSet)
	must(t, err)
	desired := l.pinned()[:1]
	l.reconciler.Want(reconcile.Of(desired...))
	l.pass(0)
	l.has(l.c, l.high, unit.NoLimit)
	err = l.pod.SetCPUs(l.all.Difference(l.high)) // as systemd does for AllowedCPUs of a slice
	if hier.Version == 1 {
		if !errors.Is(err, unix.EBUSY) { // On v1 a group must have every CPU of the groups below it.
			t.Errorf("the group above without the CPUs of the one below: %v, want %v", err, unix.EBUSY)
		}
		l.try(20 * time.Second)
		l.has(l.c, l.high, unit.NoLimit)
		return
	}
	must(t, err)
	for range 3 {
		l.try(20 * time.Second)
		l.has(l.c, l.all.Difference(l.high), 2*period)
	}
	must(t, l.pod.SetCPUs(l.all))
	l.try(20 * time.Second)
	l.try(time.Second)
	l.has(l.c, l.high, unit.NoLimit)
	l.reconciler.Want(nil)
	l.pass(time.Second)
	l.has(l.c, l.all, 2*period)
	if left := l.journal.Entries(); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// TestLimitIsBackWhileCPUsAreRefused: systemd returned a group to the CPUs of an earlier answer. The group has its
// limit again while the kernel keeps refusing its own CPUs.
func TestLimitIsBackWhileCPUsAreRefused(t *testing.T) {
	l := newLive(t)
	l.answered = func(_ string, mems bool, list cpuset.Set) bool { return !mems && list == l.all }
	l.reconciler.Want(reconcile.Of(l.pinned()[:1]...))
	l.pass(0)
	l.has(l.c, l.high, unit.NoLimit)
	must(t, l.c.SetCPUs(l.all))
	relent := l.refuse(l.c)
	l.try(20 * time.Second)
	for range 3 {
		l.try(20 * time.Second)
		l.has(l.c, l.all, 2*period)
	}
	relent()
	l.try(time.Minute)
	l.pass(time.Minute)
	l.has(l.c, l.high, unit.NoLimit)
}
