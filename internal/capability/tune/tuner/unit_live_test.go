package tuner_test

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

const unitChild = "BERTH_TEST_TUNE_UNIT"

// TestUnitChild is the process of a unit: it reports that it runs, and ends with its input.
func TestUnitChild(t *testing.T) {
	if os.Getenv(unitChild) == "" {
		return
	}
	fmt.Println("running")
	_, _ = bufio.NewReader(os.Stdin).ReadString(0)
}

// unit is a group of the tests that stands for the group of a unit, with one process.
type unit struct {
	*host

	group *scratch.Group
	cmd   *exec.Cmd
}

func newUnit(t *testing.T) *unit {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	u := &unit{host: &host{t: t, plain: plain.At(t, "/"), boot: boot, boottime: time.Hour, state: filepath.Join(t.TempDir(), "tune")}}
	u.keep = func(tuner.Applied) error { return nil }
	u.root, u.groups = u.plain.Root(), u.plain.Cgroups()
	u.kernel = tuner.KernelOf(u.root)
	u.start()
	return u
}

// start starts the unit in a new group.
func (u *unit) start() {
	u.t.Helper()
	var err error
	u.group, err = scratch.New(u.groups, "", scratch.Name("test-unit"))
	must(u.t, err)
	group := u.group
	u.t.Cleanup(func() {
		if err := group.Close(); err != nil {
			u.t.Error(err)
		}
	})
	u.cmd = process(u.t)
	must(u.t, u.group.Attach(u.cmd.Process.Pid))
}

// process starts a child process that runs until the test ends.
func process(t testing.TB) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^TestUnitChild$")
	cmd.Env = append(os.Environ(), unitChild+"=1")
	_, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	must(t, cmd.Start())
	t.Cleanup(func() { _, _ = cmd.Process.Kill(), cmd.Wait() })
	_, err = bufio.NewReader(out).ReadString('\n')
	must(t, err)
	return cmd
}

// stop stops the unit and removes its group.
func (u *unit) stop() {
	u.t.Helper()
	must(u.t, u.cmd.Process.Kill())
	_ = u.cmd.Wait() // it was killed
	must(u.t, u.group.Close())
}

// at is the state of a unit: the effective CPUs of its group, and the scheduling of its threads.
type at struct {
	CPUs    string
	Threads map[int]kernel.Scheduled
}

func (u *unit) has() at {
	u.t.Helper()
	cpus, err := u.group.Handle().EffectiveCPUs()
	must(u.t, err)
	a := at{CPUs: cpus.String(), Threads: map[int]kernel.Scheduled{}}
	tids, _, err := u.groups.ThreadIDs(u.group.Handle())
	must(u.t, err)
	for _, tid := range tids {
		s, err := kernel.ThreadScheduled(tid)
		if errors.Is(err, syscall.ESRCH) {
			continue
		}
		must(u.t, err)
		a.Threads[tid] = s
	}
	return a
}

// asBefore compares the threads that existed before. A runtime may have started more threads, which must have the
// default policy.
func (u *unit) asBefore(when string, before at) {
	u.t.Helper()
	now := u.has()
	for tid, s := range now.Threads {
		was, known := before.Threads[tid]
		if known && s != was || s.Class != kernel.Other {
			u.t.Errorf("%s: thread %d has %+v, had %+v", when, tid, s, was)
		}
	}
	if now.CPUs != before.CPUs {
		u.t.Errorf("%s: CPUs %s, want %s", when, now.CPUs, before.CPUs)
	}
}

// order returns an order for one CPU, policy batch and, if the kernel has slices per thread, a slice of 7 ms.
func (u *unit) order(confirm time.Duration) tuner.Order {
	u.t.Helper()
	cpus, err := cpuset.Parse(u.has().CPUs)
	must(u.t, err)
	first, _ := cpus.Min()
	setting := func(name, file, text string) tune.Setting {
		return tune.Setting{Knob: name, Instance: "db.service", File: file, Want: text, Write: text, Support: knob.Settable, Phase: knob.Units}
	}
	threads := u.threads()
	o := tuner.Order{Confirm: confirm, Settings: []tune.Setting{
		setting(tune.UnitCPUs, "/sys/fs/cgroup/"+u.group.Path()+"/cpuset.cpus", fmt.Sprint(first)), setting(tune.UnitPolicy, threads, "batch"),
	}}
	o.Profile.Name = "test"
	base, err := kernel.DefaultThreadSlice()
	must(u.t, err)
	if base > 0 {
		o.Settings = append(o.Settings, setting(tune.UnitSlice, threads, "7ms"))
	}
	return o
}

// threads returns the file that lists the unit's threads, as a plan has it: in the unified hierarchy, else in that of
// the CPU controller.
func (u *unit) threads() string {
	u.t.Helper()
	cpu, err := u.groups.Hierarchy(cgroup.CPU)
	must(u.t, err)
	file := knob.ThreadsFile
	if cpu.Version == 1 {
		file = knob.ThreadsFileV1
	}
	return filepath.Join(cpu.Mount, u.group.Path(), file)
}

// states returns the states of a verification by knob.
func (u *unit) states() map[string]tune.State {
	u.t.Helper()
	a, is, err := tuner.Load(u.state)
	must(u.t, err)
	if !is {
		u.t.Fatal("nothing is applied")
	}
	all := map[string]tune.State{}
	for _, row := range a.Verify(u.root.FS(), u.kernel, nil) {
		all[row.Knob] = row.State
	}
	return all
}

// want compares the states with the expected one. On cgroup v1, where no plan has the CPUs of a unit, their state is
// Gone.
func (u *unit) want(when string, want tune.State, knobs ...string) {
	u.t.Helper()
	got := u.states()
	for _, name := range knobs {
		want := want
		if name == tune.UnitCPUs && u.groups.Layout() != "v2" {
			want = tune.Gone
		}
		if state, is := got[name]; is && state != want || !is && name != tune.UnitSlice {
			u.t.Errorf("%s: %s is %s, want %s", when, name, state, want)
		}
	}
}

// TestLiveUnit: a unit gets CPUs, a policy and a slice, and a second apply writes nothing. A value that another program
// gives a thread is reported as drift and not overwritten. A rollback restores everything.
func TestLiveUnit(t *testing.T) {
	u := newUnit(t)
	before, o := u.has(), u.order(confirm)
	knobs := []string{tune.UnitCPUs, tune.UnitPolicy, tune.UnitSlice}
	u.do(func(h *tuner.Tuner) {
		r, err := h.Apply(o)
		if err != nil || r.Writes != len(o.Settings) {
			t.Fatalf("%+v, %v", r, err)
		}
		must(t, h.Commit())
	})
	u.want("applied", tune.OK, knobs...)
	for tid, s := range u.has().Threads {
		if s.Class != kernel.Batch || len(o.Settings) > 2 && s.Slice != 7*time.Millisecond {
			t.Errorf("thread %d has %+v", tid, s)
		}
	}
	u.do(func(h *tuner.Tuner) {
		if r, err := h.Apply(o); err != nil || r.Writes != 0 {
			t.Errorf("a second apply: %+v, %v", r, err)
		}
	})
	pid := u.cmd.Process.Pid
	if len(o.Settings) > 2 {
		must(t, hostwrite.Scheduled(pid, kernel.Scheduled{Class: kernel.Batch, Slice: 9 * time.Millisecond}))
		u.want("another program's slice", tune.Drift, tune.UnitSlice)
		u.want("another program's slice", tune.OK, tune.UnitPolicy)
	}
	must(t, hostwrite.Scheduled(pid, kernel.Scheduled{Class: kernel.Idle}))
	u.want("another program's policy", tune.Drift, tune.UnitPolicy)
	u.do(func(h *tuner.Tuner) {
		all := h.Rollback()
		i := 0
		for i < len(all) && !strings.HasPrefix(all[i].Entry.Target.Knob, "policy") {
			i++
		}
		if i == len(all) || all[i].Outcome != apply.OutcomeDrifted {
			t.Errorf("%+v", all)
		}
	})
	if s := u.has().Threads[pid]; s.Class != kernel.Idle {
		t.Errorf("the other program's thread has %+v", s)
	}
	must(t, hostwrite.Scheduled(pid, before.Threads[pid]))
	u.do(func(h *tuner.Tuner) { h.Rollback() })
	u.asBefore("rolled back", before)
	if _, is, err := tuner.Load(u.state); is || err != nil {
		t.Errorf("a record is left: %v", err)
	}
}

// TestLiveUnitKilledAtEveryStep: an apply or its undo may die at any step, also between two threads. The next command
// restores the unit.
func TestLiveUnitKilledAtEveryStep(t *testing.T) {
	u := newUnit(t)
	before, o := u.has(), u.order(confirm)
	for step := 1; ; step++ {
		died := u.command(step, func(h *tuner.Tuner) { _, err := h.Apply(o); must(t, err) })
		a, is, err := tuner.Load(u.state)
		must(t, err)
		u.command(step, func(h *tuner.Tuner) { h.Rollback() })
		u.do(func(h *tuner.Tuner) {
			if died && is && a.Phase == tuner.Applying {
				u.asBefore(fmt.Sprintf("killed at step %d", step), before)
			}
			h.Rollback()
		})
		u.asBefore(fmt.Sprintf("rolled back after step %d", step), before)
		if !died {
			if step < 15 {
				t.Errorf("only %d steps", step)
			}
			return
		}
	}
}

// TestLiveUnitStartedAgain: a unit's policy ends with its threads, which is drift. An apply sets it again, and a later
// rollback leaves the new threads with the policy that they started with.
func TestLiveUnitStartedAgain(t *testing.T) {
	u := newUnit(t)
	o := u.order(0)
	u.do(func(h *tuner.Tuner) { _, err := h.Apply(o); must(t, err) })
	u.stop()
	u.want("stopped", tune.Gone, tune.UnitPolicy)
	u.start()
	u.want("started again", tune.Drift, tune.UnitPolicy)
	before := u.has()
	u.do(func(h *tuner.Tuner) {
		if r, err := h.Apply(o); err != nil || r.Writes != len(o.Settings) {
			t.Errorf("%+v, %v", r, err)
		}
	})
	u.want("applied again", tune.OK, tune.UnitPolicy, tune.UnitSlice)
	u.do(func(h *tuner.Tuner) { h.Rollback() })
	u.asBefore("rolled back", before)
}

// TestLiveUnitRepeated: after a restart of the unit, Repeat sets the values of a committed profile again. Values that
// another program gave the unit stay. A later rollback leaves the new threads with their first policy.
func TestLiveUnitRepeated(t *testing.T) {
	u := newUnit(t)
	o := u.order(confirm)
	o.Settings = o.Settings[1:] // systemd sets the CPUs again
	repeat := func(when string, want int) {
		t.Helper()
		u.do(func(h *tuner.Tuner) {
			if again, err := h.Repeat(); err != nil || len(again.Restarted) != want || len(again.Followed) > 0 {
				t.Errorf("%s: set again %+v, %v", when, again, err)
			}
		})
	}
	repeat("nothing is applied", 0)
	u.do(func(h *tuner.Tuner) { _, err := h.Apply(o); must(t, err) })
	u.stop()
	repeat("on trial, and stopped", 0)
	u.start()
	repeat("on trial", 0)
	u.do(func(h *tuner.Tuner) { must(t, h.Commit()) })
	before := u.has()
	repeat("committed", len(o.Settings))
	u.want("set again", tune.OK, tune.UnitPolicy, tune.UnitSlice)
	repeat("once more", 0)
	moved := process(t).Process.Pid // it inherits nothing
	must(t, u.group.Attach(moved))
	u.want("a process was moved in", tune.Drift, tune.UnitPolicy, tune.UnitSlice)
	u.do(func(h *tuner.Tuner) {
		if again, err := h.Repeat(); err != nil || len(again.Followed) != len(o.Settings) || len(again.Restarted) > 0 {
			t.Errorf("a process was moved in: set again %+v, %v", again, err)
		}
	})
	u.want("followed", tune.OK, tune.UnitPolicy, tune.UnitSlice)
	repeat("and once more", 0)
	pid := u.cmd.Process.Pid
	must(t, hostwrite.Scheduled(pid, kernel.Scheduled{Class: kernel.Idle}))
	repeat("another program's policy", 0)
	u.want("another program's policy", tune.Drift, tune.UnitPolicy)
	if s := u.has().Threads[pid]; s.Class != kernel.Idle {
		t.Errorf("the other program's thread has %+v", s)
	}
	must(t, hostwrite.Scheduled(pid, before.Threads[pid]))
	u.do(func(h *tuner.Tuner) { h.Rollback() })
	u.asBefore("rolled back", before)
}

// TestUnitsNeedAHost: for a directory, thread ids have no meaning, so an order with a unit is refused.
func TestUnitsNeedAHost(t *testing.T) {
	h := newHost(t)
	before := h.files()
	o := order(confirm, some())
	o.Settings = append(o.Settings, tune.Setting{Knob: tune.UnitPolicy, File: "/sys/fs/cgroup/a.service/cgroup.threads", Write: "batch", Phase: knob.Units})
	h.do(func(u *tuner.Tuner) {
		if _, err := u.Apply(o); !errors.Is(err, tuner.ErrNoUnits) {
			t.Error(err)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}
