package tuner_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/profile"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/kernel/job"
)

// partitioned returns the order of a profile with one unit that becomes a partition of these CPUs.
func (u *unit) partitioned(kind v1alpha1.CPUPartition, cpus cpuset.Set) tuner.Order {
	u.t.Helper()
	const name = "db.service"
	group := "/sys/fs/cgroup/" + u.group.Path()
	host := knob.Open(u.root.FS())
	facts := host.Facts()
	facts.Units[name], facts.Groups[name] = true, group
	if u.groups.Layout() != "v2" {
		facts.Unified = "/sys/fs/cgroup" // no plan has a unit on v1; this is what it would write
	}
	files := map[string]string{}
	for _, file := range tune.Files(name, facts) {
		files[file] = host.Text(file)
	}
	set := profile.Set{CPUs: cpus, Partition: kind}
	plan := tune.Make(profile.Bound{Name: "test", Sets: map[string]profile.Set{"fast": set}, Units: []profile.Unit{
		{Name: name, CPUs: cpus, Partition: kind, Set: "fast"},
	}}, tune.Host{Facts: facts, Files: files}, nil)
	o := tuner.Order{Confirm: confirm, Settings: plan.Divide().Write}
	o.Profile.Name = "test"
	return o
}

// affinities returns the affinities of the machine's threads. It omits kernel threads that are bound to their CPUs, and
// this process, because the Go runtime starts more threads.
func affinities(t *testing.T) map[int]string {
	t.Helper()
	names, err := filepath.Glob("/proc/[0-9]*/task/[0-9]*")
	must(t, err)
	all := map[int]string{}
	for _, name := range names {
		tid, err := strconv.Atoi(filepath.Base(name))
		must(t, err)
		cpus, err := kernel.ThreadAffinity(tid)
		if err == nil && !kernel.ThreadIsBound(tid) && !strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", os.Getpid())) {
			all[tid] = cpus.String()
		}
	}
	return all
}

// sameAffinities compares the threads that exist in both maps.
func sameAffinities(t *testing.T, when string, before, now map[int]string) {
	t.Helper()
	for tid, cpus := range now {
		if was, known := before[tid]; known && was != cpus {
			comm, _ := os.ReadFile(fmt.Sprintf("/proc/%d/comm", tid))
			t.Errorf("%s: thread %d (%s) may run on %s, before on %s", when, tid, strings.TrimSpace(string(comm)), cpus, was)
		}
	}
}

// cpusOf returns the first CPU, the last CPU and all CPUs of the unit, which needs at least two. A CPU that isolcpus=
// isolates is no such CPU: before Linux 7, a partition of it conflicts with that argument.
func (u *unit) cpusOf() (first, last, all cpuset.Set) {
	u.t.Helper()
	all, err := u.group.Handle().EffectiveCPUs()
	must(u.t, err)
	low, _ := all.Min()
	high := low
	for cpu := range all.Difference(isolated(u.t)).All() {
		high = cpu
	}
	if high == low {
		u.t.Fatal("needs two CPUs")
	}
	return cpuset.Set{}.Add(low), cpuset.Set{}.Add(high), all
}

// isolated returns the CPUs that the running kernel was booted to isolate.
func isolated(t testing.TB) cpuset.Set {
	t.Helper()
	text, err := os.ReadFile("/sys/devices/system/cpu/isolated")
	must(t, err)
	cpus, err := cpuset.Parse(strings.TrimSpace(string(text)))
	must(t, err)
	return cpus
}

// outside starts a process in the root group.
func (u *unit) outside() (pid int) {
	u.t.Helper()
	pid = process(u.t).Process.Pid
	root, err := u.groups.Group("")
	must(u.t, err)
	defer root.Close()
	dir, err := root.Dir(cgroup.CPUSet)
	must(u.t, err)
	must(u.t, hostwrite.Existing(dir, "cgroup.procs", strconv.Itoa(pid)))
	return pid
}

// forgets reports whether a thread that asked for all CPUs of its group also gets CPUs that the group gains later.
// Linux before 6.2 behaved like that.
func (u *unit) forgets(all, last cpuset.Set) bool {
	u.t.Helper()
	g, err := scratch.New(u.groups, "", scratch.Name("test-forgets"))
	must(u.t, err)
	defer func() { must(u.t, g.Close()) }() // while a group has these CPUs, there is no partition of them
	few := all.Difference(last)
	must(u.t, overwrite(u.t, g, cgroup.KnobCPUs, few.String()))
	child := process(u.t)
	dir, err := g.Handle().Dir(cgroup.CPUSet)
	must(u.t, err)
	must(u.t, hostwrite.Existing(dir, "cgroup.procs", strconv.Itoa(child.Process.Pid)))
	must(u.t, hostwrite.Affinity(child.Process.Pid, few))
	must(u.t, overwrite(u.t, g, cgroup.KnobCPUs, all.String()))
	has, err := kernel.ThreadAffinity(child.Process.Pid)
	must(u.t, err)
	must(u.t, child.Process.Kill())
	_ = child.Wait() // the group must be empty
	return has == all
}

func (u *unit) partition() string {
	u.t.Helper()
	v, err := u.group.Handle().Read(cgroup.KnobPartition)
	must(u.t, err)
	return string(v)
}

// isV2 reports whether the host has partitions, which remove CPUs from all other threads. Otherwise it checks that an
// apply is refused and changes nothing.
func (u *unit) isV2() bool {
	u.t.Helper()
	if u.groups.Layout() == "v2" {
		inGuest(u.t)
		return true
	}
	before := u.has()
	_, last, _ := u.cpusOf()
	u.do(func(h *tuner.Tuner) {
		if _, err := h.Apply(u.partitioned(v1alpha1.PartitionIsolated, last)); !errors.Is(err, cgroup.ErrNoKnob) {
			u.t.Errorf("on %s: %v", u.groups.Layout(), err)
		}
	})
	u.asBefore("refused", before)
	return false
}

// TestLivePartition: a unit becomes a partition, and all other threads leave its CPUs. A rollback restores the CPUs of
// every thread, also of a thread that asked for some. A thread that was narrowed during the partition, perhaps by its
// owner, stays narrowed.
func TestLivePartition(t *testing.T) {
	u := newUnit(t)
	if !u.isV2() {
		return
	}
	first, last, all := u.cpusOf()
	asked, again, narrow := u.outside(), u.outside(), u.outside()
	must(t, hostwrite.Affinity(asked, first.Union(last)))
	must(t, hostwrite.Affinity(narrow, all.Difference(last)))
	forgets := u.forgets(all, last)
	usual, err := kernel.ThreadAffinity(again) // isolcpus= narrows it
	must(t, err)
	before, threads := u.has(), affinities(t)
	for _, kind := range []v1alpha1.CPUPartition{v1alpha1.PartitionIsolated, v1alpha1.PartitionRoot} {
		known := true
		u.do(func(h *tuner.Tuner) {
			r, err := h.Apply(u.partitioned(kind, last))
			if known = !errors.Is(err, syscall.EINVAL); known && (err != nil || r.Writes != 2) {
				t.Fatalf("%s: %+v, %v", kind, r, err)
			}
		})
		if !known && kind == v1alpha1.PartitionIsolated {
			continue // Linux 6.1 and newer have it
		}
		u.want("applied", tune.OK, tune.UnitCPUs, tune.Partition)
		if got := u.partition(); got != string(kind) {
			t.Errorf("the group is %q", got)
		}
		for pid, want := range map[int]cpuset.Set{asked: first, again: usual.Difference(last), u.cmd.Process.Pid: last} {
			if has, err := kernel.ThreadAffinity(pid); err != nil || has != want {
				t.Errorf("%s: process %d may run on %s, want %s, %v", kind, pid, has, want, err)
			}
		}
		must(t, hostwrite.Affinity(again, usual.Difference(last)))
		u.do(func(h *tuner.Tuner) {
			for _, r := range h.Rollback() {
				if r.Err != nil || r.Outcome != apply.OutcomeRestored {
					t.Errorf("%+v", r)
				}
			}
		})
		if got := u.partition(); got != string(cgroup.Member) {
			t.Errorf("rolled back: the group is %q", got)
		}
		u.asBefore("rolled back", before)
		now := affinities(t)
		want := usual.Difference(last)
		if forgets || usual != all { // a thread that was narrowed before is journaled, and gets that back
			want = usual
		}
		if now[again] != want.String() {
			t.Errorf("rolled back: process %d may run on %s, want %s", again, now[again], want)
		}
		delete(now, again)
		sameAffinities(t, "rolled back "+string(kind), threads, now)
		must(t, hostwrite.Affinity(again, usual))
	}
}

// What the kernel says of a partition that would take all CPUs of a parent with threads, and newer kernels of one with
// CPUs that isolcpus= isolates (perr_strings in kernel/cgroup/cpuset.c).
const (
	noCPULeft  = "Parent unable to distribute cpu downstream"
	byIsolcpus = "partition config conflicts with housekeeping setup"
)

// TestLivePartitionRefused: the kernel accepts the write of a partition that it cannot make. The apply fails and
// restores everything.
func TestLivePartitionRefused(t *testing.T) {
	u := newUnit(t)
	if !u.isV2() {
		return
	}
	_, _, all := u.cpusOf()
	u.outside() // the root group must retain a CPU for it
	before := u.has()
	u.do(func(h *tuner.Tuner) {
		_, err := h.Apply(u.partitioned(v1alpha1.PartitionRoot, all))
		if !errors.Is(err, tuner.ErrUndone) || !errors.Is(err, apply.ErrNotEffective) || errors.Is(err, tuner.ErrLeft) {
			t.Errorf("all CPUs: %v", err)
		}
		conflicts := !isolated(t).IsEmpty() && strings.Contains(fmt.Sprint(err), byIsolcpus)
		if !conflicts && !strings.Contains(fmt.Sprint(err), noCPULeft) {
			t.Errorf("all CPUs: %v, and the kernel's reason is %q", err, noCPULeft)
		}
	})
	if got := u.partition(); got != string(cgroup.Member) {
		t.Errorf("the group is %q", got)
	}
	u.asBefore("refused", before)
}

// TestLivePartitionBelow: below a group that is not a partition, a remote partition uses CPUs that every group above
// gives away, if the kernel supports that. A plan for an older kernel says so. A rollback restores everything.
func TestLivePartitionBelow(t *testing.T) {
	u := newUnit(t)
	if !u.isV2() {
		return
	}
	_, last, _ := u.cpusOf()
	u.stop()
	above, err := scratch.New(u.groups, "", scratch.Name("test-slice"))
	must(t, err)
	t.Cleanup(func() { must(t, above.Close()) })
	u.group, err = above.Sub(scratch.Name("test-unit"))
	must(t, err)
	t.Cleanup(func() { must(t, u.group.Close()) })
	facts := knob.Open(u.root.FS()).Facts()
	o := u.partitioned(v1alpha1.PartitionRoot, last)
	if !facts.Remote {
		if len(o.Settings) != 1 || o.Settings[0].Knob != tune.UnitCPUs {
			t.Errorf("planned %+v", o.Settings)
		}
		return
	}
	facts.Groups["db.service"] = "/sys/fs/cgroup/" + u.group.Path()
	files := func() map[string]string {
		all := map[string]string{}
		for _, file := range tune.Files("db.service", facts) {
			text, err := os.ReadFile(file)
			must(t, err)
			all[file] = string(text)
		}
		return all
	}
	before := files()
	u.do(func(h *tuner.Tuner) {
		if r, err := h.Apply(o); err != nil || r.Writes != 4 {
			t.Fatalf("%+v, %v", r, err)
		}
	})
	u.want("applied", tune.OK, tune.UnitCPUs, tune.Exclusive, tune.Partition)
	must(t, overwrite(t, above, cgroup.KnobExclusive, "\n"))
	u.want("another program took the CPUs away", tune.Ignored, tune.Partition)
	t.Logf("%s", u.row(tune.Partition))
	must(t, overwrite(t, above, cgroup.KnobExclusive, last.String()))
	u.do(func(h *tuner.Tuner) { h.Rollback() })
	if d := cmp.Diff(before, files()); d != "" {
		t.Errorf("rolled back (-before +after):\n%s", d)
	}
}

func overwrite(t testing.TB, g *scratch.Group, k cgroup.Knob, text string) error {
	t.Helper()
	dir, err := g.Handle().Dir(cgroup.CPUSet)
	must(t, err)
	return hostwrite.Existing(dir, string(k), text)
}

// TestLivePartitionKilledAtEveryStep: an apply or its undo may die at any step. The next commands restore the unit and
// all other threads.
func TestLivePartitionKilledAtEveryStep(t *testing.T) {
	u := newUnit(t)
	if !u.isV2() {
		return
	}
	first, last, all := u.cpusOf()
	must(t, hostwrite.Affinity(u.outside(), first.Union(last)))
	must(t, hostwrite.Affinity(u.outside(), all.Difference(last))) // as if it were already narrowed
	before, threads := u.has(), affinities(t)
	stride, err := job.Stride()
	must(t, err)
	for step := 1; ; step += min(stride, 5) {
		died := u.command(step, func(h *tuner.Tuner) { _, err := h.Apply(u.partitioned(v1alpha1.PartitionRoot, last)); must(t, err) })
		u.command(step, func(h *tuner.Tuner) { h.Rollback() })
		u.do(func(h *tuner.Tuner) { h.Rollback() })
		when := fmt.Sprintf("killed at step %d", step)
		if got := u.partition(); got != string(cgroup.Member) {
			t.Errorf("%s: the group is %q", when, got)
		}
		u.asBefore(when, before)
		sameAffinities(t, when, threads, affinities(t))
		if !died {
			if step < 8 {
				t.Errorf("only %d steps", step)
			}
			return
		}
	}
}
