package apply_test

import (
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const threadsChild = "BERTH_TEST_THREADS"

// TestThreadsChild is a child process that waits to be killed.
func TestThreadsChild(*testing.T) {
	if os.Getenv(threadsChild) != "" {
		time.Sleep(time.Hour)
	}
}

// pinnedThreads is a group with a thread that chose its own affinity.
type pinnedThreads struct {
	*live

	tid    int
	target plan.Target
	all    cpuset.Set
	// asked is the affinity that the thread asked for, and away is a set without any of its CPUs.
	asked, away cpuset.Set
	// forgets makes every write of the group's CPUs reset the affinity, as Linux before 6.2 does. If it is false, the
	// test does not change the behavior of a newer kernel.
	forgets bool
	// between has the thread's affinities after each write, before the repair.
	between []cpuset.Set
}

func newPinnedThreads(t *testing.T, forgets bool) *pinnedThreads {
	t.Helper()
	p := &pinnedThreads{live: newLive(t), forgets: forgets}
	cpus := p.cpus() // skips if there is only one
	p.all, _, _ = cgroup.Value(cpus.all).List()
	p.asked, _, _ = cgroup.Value(cpus.low).List()
	p.away, _, _ = cgroup.Value(cpus.high).List()
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestThreadsChild$")
	child.Env = append(os.Environ(), threadsChild+"=1")
	must(t, child.Start())
	t.Cleanup(func() { _, _ = child.Process.Kill(), child.Wait() })
	p.tid, p.target = child.Process.Pid, cgroupfile.Target(p.a.Path(), cgroup.KnobCPUs)
	must(t, p.a.Attach(p.tid))
	must(t, hostwrite.Affinity(p.tid, p.asked))
	return p
}

// applier returns an Applier whose kernel behaves as the case requires.
func (p *pinnedThreads) applier(j *journal.Journal) *apply.Applier {
	return apply.New(cgroupfile.Kinds(p.host, nil), j, apply.Options{Step: func(s apply.Step, t plan.Target) {
		if t == p.target && (s == apply.StepWritten || s == apply.StepRestored) {
			p.reset()
			had, err := kernel.ThreadAffinity(p.tid)
			must(p.t, err)
			p.between = append(p.between, had)
		}
	}})
}

// pinTo returns a setting for the CPUs of the thread's group.
func (p *pinnedThreads) pinTo(set cpuset.Set) plan.Setting {
	return pin(p.a.Path(), plan.Value(cgroup.ListValue(set)))
}

func (p *pinnedThreads) reset() {
	if p.forgets {
		var mask unix.CPUSet
		mask.Fill()
		must(p.t, unix.SchedSetaffinity(p.tid, &mask))
	}
}

func (p *pinnedThreads) has(want cpuset.Set) {
	p.t.Helper()
	got, err := kernel.ThreadAffinity(p.tid)
	if err != nil || got != want {
		p.t.Fatalf("the thread has CPUs %s, want %s: %v", got, want, err)
	}
}

// journaled returns the journal's CPUs for the thread. The journal also has the threads of the child's runtime.
func (p *pinnedThreads) journaled(j *journal.Journal) string {
	entry, _ := j.Entry(p.target)
	for _, thread := range entry.Threads {
		if thread.TID == p.tid {
			return thread.CPUs
		}
	}
	return ""
}

func eachKernel(t *testing.T, test func(t *testing.T, p *pinnedThreads)) {
	t.Helper()
	t.Run("this kernel", func(t *testing.T) { test(t, newPinnedThreads(t, false)) })
	t.Run("forgets", func(t *testing.T) { test(t, newPinnedThreads(t, true)) })
}

// A thread retains the requested affinity as far as its group has the CPUs, and in the end has all of it again.
func TestAffinityOutlivesNarrowing(t *testing.T) {
	eachKernel(t, func(t *testing.T, p *pinnedThreads) {
		a := p.applier(openJournal(t, t.TempDir()))
		p.applied(a, p.pinTo(p.away))
		p.has(p.away)
		if both := p.asked.Union(p.away); both != p.all { // three CPUs or more
			p.applied(a, p.pinTo(both))
			p.has(p.asked)
			p.applied(a, p.pinTo(p.all.Difference(p.away)))
			p.has(p.asked)
		}
		restored(t, a, "restored")
		p.has(p.asked)
		if problem := a.Limits(); problem != "" {
			t.Error(problem)
		}
	})
}

// Repeated moves of a group's CPUs cost a thread nothing. After each write it has the requested affinity, as far as the
// group has it. Between the write and the repair it runs only on CPUs of its group.
func TestAffinityThroughMoves(t *testing.T) {
	eachKernel(t, func(t *testing.T, p *pinnedThreads) {
		a := p.applier(openJournal(t, t.TempDir()))
		for _, to := range []cpuset.Set{p.away, p.all, p.away, p.all, p.asked, p.all, p.away} {
			p.between = nil
			p.applied(a, p.pinTo(to))
			if len(p.between) != 1 || !p.between[0].IsSubsetOf(to) || p.forgets && p.between[0] != to {
				t.Errorf("moved to %s, the thread had %s before it got its own back", to, p.between)
			}
			want := p.asked.Intersect(to)
			if want.IsEmpty() {
				want = to
			}
			p.has(want)
		}
		restored(t, a, "restored")
		p.has(p.asked)
	})
}

// A thread may ask for more CPUs than its group has. On a kernel that remembers the request, Berth must not narrow the
// thread to the visible CPUs. The same changes without Berth show whether the kernel remembers.
func TestAffinityBeyondTheGroup(t *testing.T) {
	p := newPinnedThreads(t, false)
	others := p.all.Difference(p.asked).Difference(p.away)
	middle, ok := others.Min()
	if !ok {
		return // needs three CPUs: TestJudge tests the decision
	}
	visible := cpuset.Set{}.Add(middle)
	first, second, beyond := p.asked.Union(visible), p.away.Union(visible), p.away.Union(visible)
	change := func(set cpuset.Set) { must(t, p.a.SetCPUs(set)) }
	change(first)
	must(t, hostwrite.Affinity(p.tid, beyond))
	change(second)
	change(p.all)
	kept, err := kernel.ThreadAffinity(p.tid)
	must(t, err)
	want := visible
	if kept == beyond {
		want = beyond
	}

	change(first)
	must(t, hostwrite.Affinity(p.tid, beyond))
	a := p.applier(openJournal(t, t.TempDir()))
	p.applied(a, p.pinTo(second))
	p.applied(a, p.pinTo(p.all))
	p.has(want)
	restored(t, a, "restored")
	p.has(visible)
}

// A thread that never asked for CPUs has the CPUs of its group.
func TestNoAffinityIsInvented(t *testing.T) {
	eachKernel(t, func(t *testing.T, p *pinnedThreads) {
		j := openJournal(t, t.TempDir())
		a := p.applier(j)
		must(t, hostwrite.Affinity(p.tid, p.all))
		p.applied(a, p.pinTo(p.away))
		if p.journaled(j) != "" {
			t.Errorf("the journal has CPUs %s for the thread", p.journaled(j))
		}
		restored(t, a, "restored")
		p.has(p.all)
	})
}

// The container runtime or systemd may write the list, and an agent may die before it notices.
func TestAffinityAfterCrash(t *testing.T) {
	eachKernel(t, func(t *testing.T, p *pinnedThreads) {
		dir := t.TempDir()
		j, err := journal.Open(dir, boot, cgroupfile.Values())
		must(t, err)
		first := p.applier(j)
		narrow := changes(t, p.host, p.pinTo(p.away))
		must(t, first.Record(narrow))
		must(t, first.Note(narrow))
		must(t, p.a.SetCPUs(p.away))
		p.reset()
		must(t, j.Close())

		j = openJournal(t, dir)
		must(t, p.a.SetCPUs(p.all)) // another writer restores the list
		p.reset()
		restored(t, p.applier(j), "already")
		p.has(p.asked)
	})
}

// The affinity that a thread asked for is in the journal before its group is written.
func TestAffinityIsJournaledFirst(t *testing.T) {
	p := newPinnedThreads(t, false)
	j := openJournal(t, t.TempDir())
	wrote := false
	a := apply.New(cgroupfile.Kinds(p.host, nil), j, apply.Options{Step: func(s apply.Step, target plan.Target) {
		if s != apply.StepWritten {
			return
		}
		wrote = true
		if target == p.target && p.journaled(j) != p.asked.String() {
			t.Errorf("the journal has CPUs %q for the thread, want %s", p.journaled(j), p.asked)
		}
	}})
	p.applied(a, p.pinTo(p.away))
	restored(t, a, "restored")
	if !wrote {
		t.Error("nothing was written")
	}
}

const blindChild = "BERTH_TEST_BLIND"

// TestBlindChild is a child process that narrows a group from a pid namespace without the group's threads.
func TestBlindChild(t *testing.T) {
	group := os.Getenv(blindChild)
	if group == "" {
		return
	}
	host := openHost(t)
	a := apply.New(cgroupfile.Kinds(host, nil), openJournal(t, t.TempDir()), apply.Options{})
	for _, r := range a.Apply(changes(t, host, pin(group, plan.Value(os.Getenv(blindChild+"_CPUS"))))) {
		must(t, r.Err)
	}
	if a.Limits() == "" {
		t.Error("no problem")
	}
	restored(t, a, "restored")
}

// An agent that cannot see the threads of a group reports that.
func TestBlindAgentSaysSo(t *testing.T) {
	p := newPinnedThreads(t, false)
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestBlindChild$", "-test.v")
	child.Env = append(os.Environ(), blindChild+"="+p.a.Path(), blindChild+"_CPUS="+p.away.String())
	child.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWPID}
	if out, err := child.CombinedOutput(); err != nil || !strings.Contains(string(out), "--- PASS: TestBlindChild") {
		t.Fatalf("%v\n%s", err, out)
	}
}
