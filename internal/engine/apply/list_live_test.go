package apply_test

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// cpus contains the CPU lists of the tests: two single CPUs, and all CPUs.
type cpus struct{ low, high, all plan.Value }

func (l *live) cpus() cpus {
	l.t.Helper()
	all, err := l.top.Handle().EffectiveCPUs()
	must(l.t, err)
	low, _ := all.Min()
	high, _ := all.Max()
	if low == high {
		l.t.Skip("needs two CPUs; runs in the VM: make test")
	}
	return cpus{
		low: plan.Value(cgroup.ListValue(cpuset.Set{}.Add(low))), high: plan.Value(cgroup.ListValue(cpuset.Set{}.Add(high))), all: plan.Value(cgroup.ListValue(all)),
	}
}

func (l *live) cpusetVersion() int {
	l.t.Helper()
	hier, err := l.host.Hierarchy(cgroup.CPUSet)
	must(l.t, err)
	return hier.Version
}

func listTo(k cgroup.Knob, owner plan.Owner, group string, v plan.Value) plan.Setting {
	return plan.Setting{Target: cgroupfile.Target(group, k), Value: v, Owner: owner, Workload: "w", Why: "test"}
}

func pin(group string, v plan.Value) plan.Setting {
	return listTo(cgroup.KnobCPUs, plan.OwnerPlace, group, v)
}

// lists returns the content of every cpuset file of the tree.
func (l *live) lists() map[string]string {
	l.t.Helper()
	hier, err := l.host.Hierarchy(cgroup.CPUSet)
	must(l.t, err)
	content := make(map[string]string)
	for _, group := range []string{"", filepath.Base(l.a.Path()), filepath.Base(l.b.Path())} {
		names, err := filepath.Glob(filepath.Join(hier.Mount, l.top.Path(), group, "cpuset.*"))
		must(l.t, err)
		for _, name := range names {
			if strings.HasSuffix(name, "memory_pressure") {
				continue
			}
			data, err := os.ReadFile(name)
			must(l.t, err)
			content[name] = string(data)
		}
	}
	if len(content) < 12 {
		l.t.Fatalf("only %d files", len(content))
	}
	return content
}

func (l *live) sameLists(before map[string]string) {
	l.t.Helper()
	if d := cmp.Diff(before, l.lists()); d != "" {
		l.t.Fatalf("files differ (-before +now):\n%s", d)
	}
}

// spread returns successive settings: both children on different CPUs, together, on different CPUs in reverse, and the
// whole tree on one CPU.
func spread(top string, c cpus, mems plan.Value) [][]plan.Setting {
	a, b := top+"/a", top+"/b"
	return [][]plan.Setting{
		{pin(a, c.low), pin(b, c.high), listTo(cgroup.KnobMems, plan.OwnerPlace, a, mems)},
		{pin(a, c.all), pin(b, c.low)},
		{pin(a, c.low), pin(b, c.high)},
		{pin(top, c.high), pin(a, c.high), maxTo(a, -1)},
		{pin(top, c.all), pin(a, c.low), pin(b, c.all)},
	}
}

func (l *live) mems() plan.Value {
	l.t.Helper()
	mems, err := l.top.Handle().EffectiveMems()
	must(l.t, err)
	low, _ := mems.Min()
	return plan.Value(cgroup.ListValue(cpuset.Set{}.Add(low)))
}

func TestListsApplyAndRestore(t *testing.T) {
	l := newLive(t)
	before := l.lists()
	c := l.cpus()
	must(t, l.top.SetMax(-1, period))
	dir := t.TempDir()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, dir), apply.Options{})
	for i, settings := range spread(l.top.Path(), c, l.mems()) {
		for _, r := range a.Apply(changes(t, l.host, settings...)) {
			if r.Err != nil || !r.Wrote {
				t.Fatalf("%d: %s: wrote %v: %v", i, r.Change, r.Wrote, r.Err)
			}
		}
		for _, s := range settings {
			if v := value(t, l.host, s.Target); !cgroupfile.Values().Same(s.Target, v, s.Value) {
				t.Errorf("%d: %s has %s, want %s", i, s.Target, v, s.Value)
			}
		}
	}
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
			t.Errorf("%+v", r)
		}
	}
	l.sameLists(before)
}

// The process is killed between every two steps, and a rollback in another process restores every list.
func TestCrashBetweenListSteps(t *testing.T) {
	l := newLive(t)
	must(t, l.top.SetMax(-1, period))
	c := l.cpus()
	l.crashes(fmt.Sprint("lists ", c.low, " ", c.high, " ", c.all, " ", l.mems()), 50, func() map[string]string {
		content := l.lists()
		maps.Copy(content, l.files())
		return content
	})
}

// A list that the kernel refuses or ignores is an error that gives the reason.
func TestListRefusals(t *testing.T) {
	l := newLive(t)
	c := l.cpus()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	l.applied(a, pin(l.top.Path(), c.low), pin(l.a.Path(), c.low), pin(l.b.Path(), c.low))
	want := apply.ErrRefused
	if l.cpusetVersion() == 2 {
		want = apply.ErrNotEffective
	}
	for name, tt := range map[string]struct {
		setting plan.Setting
		want    error
		text    string
	}{
		"more than the parent": {pin(l.a.Path(), c.high), want, "the group above"},
		"an absent CPU":        {pin(l.a.Path(), "1023"), apply.ErrRefused, "not online"},
	} {
		r := a.Apply(changes(t, l.host, tt.setting))[0]
		if !errors.Is(r.Err, tt.want) || !strings.Contains(r.Err.Error(), tt.text) {
			t.Errorf("%s: %v, want %v with %q", name, r.Err, tt.want, tt.text)
		}
	}
	if l.cpusetVersion() == 1 {
		r := a.Apply(changes(t, l.host, pin(l.top.Path(), c.high)))[0]
		if !errors.Is(r.Err, apply.ErrRefused) || !strings.Contains(r.Err.Error(), "the group below") {
			t.Errorf("less than the children: %v", r.Err)
		}
	}
}

// A pinned group gets no CPUs that another group failed to leave.
func TestNobodyIsMovedOnto(t *testing.T) {
	l := newLive(t)
	c := l.cpus()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	l.applied(a, pin(l.a.Path(), c.low))
	list := changes(t, l.host, pin(l.a.Path(), c.all), listTo(cgroup.KnobCPUs, plan.OwnerPool, l.b.Path(), c.low))
	must(t, l.b.SetCPUs(mustParse(t, c.high))) // another writer was faster
	results := a.Apply(list)
	if !errors.Is(results[0].Err, apply.ErrChanged) || !errors.Is(results[1].Err, apply.ErrSkipped) {
		t.Errorf("%v, %v", results[0].Err, results[1].Err)
	}
	if v := value(t, l.host, cgroupfile.Target(l.a.Path(), cgroup.KnobCPUs)); v != c.low {
		t.Errorf("the pinned group has %s", v)
	}
}

func mustParse(t *testing.T, v plan.Value) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(string(v))
	must(t, err)
	return set
}

// A value that the runtime writes after Record is restored like a value of Berth's. So is the value that the runtime
// created a group with.
func TestRecordAndAdopt(t *testing.T) {
	l := newLive(t)
	before := l.lists()
	c := l.cpus()
	dir := t.TempDir()
	j := openJournal(t, dir)
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	must(t, a.Record(changes(t, l.host, listTo(cgroup.KnobCPUs, plan.OwnerPool, l.b.Path(), c.low))))
	l.sameLists(before)
	must(t, l.b.SetCPUs(mustParse(t, c.low)))

	must(t, l.a.SetCPUs(mustParse(t, c.high)))
	unpinned, err := l.a.Handle().Unpinned(cgroup.KnobCPUs)
	must(t, err)
	made := plan.Change{Setting: pin(l.a.Path(), c.high), From: plan.Value(unpinned)}
	made.ID = knobIdentity(t, l.host, made.Target)
	other := made
	other.ID += "1"
	stands := made
	stands.Value = c.low
	n, err := a.Adopt([]plan.Change{other, stands, made})
	if n != 1 || err != nil {
		t.Fatalf("adopted %d, %v, want 1", n, err)
	}
	if n, err := a.Adopt([]plan.Change{made}); n != 0 || err != nil {
		t.Errorf("adopted again: %d, %v", n, err)
	}
	must(t, j.Close())
	j = openJournal(t, dir)
	restored(t, apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}), "restored restored")
	l.sameLists(before)
}

func knobIdentity(t *testing.T, host *cgroup.Host, target plan.Target) plan.Identity {
	t.Helper()
	g, err := host.Group(target.Object)
	must(t, err)
	defer g.Close()
	id, err := g.ID(cgroupfile.Knob(target).Controller())
	must(t, err)
	return cgroupfile.Identity(id)
}

// On v1, each hierarchy has its own group for a path, with its own identity. A list is not written to a group that was
// created again.
func TestListOfAnotherGroup(t *testing.T) {
	l := newLive(t)
	c := l.cpus()
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	list := changes(t, l.host, pin(l.b.Path(), c.low))
	must(t, l.b.Close())
	l.b = l.sub("b")
	before := l.lists()
	if r := a.Apply(list)[0]; !errors.Is(r.Err, apply.ErrGone) {
		t.Errorf("%v, want ErrGone", r.Err)
	}
	l.sameLists(before)
}

// fakeUnits is a systemd that writes the files of the groups that it knows.
type fakeUnits struct {
	l     *live
	units map[string]string // unit -> path
	calls []string
	fails error
}

func (f *fakeUnits) SetList(unit string, k cgroup.Knob, v cgroup.Value) error {
	f.calls = append(f.calls, fmt.Sprintf("%s %s=%s", unit, k, v))
	if f.fails != nil {
		return f.fails
	}
	s := listTo(k, plan.OwnerPlace, f.units[unit], plan.Value(v))
	_ = apply.New(cgroupfile.Kinds(f.l.host, nil), openJournal(f.l.t, f.l.t.TempDir()), apply.Options{}).Apply(changes(f.l.t, f.l.host, s))
	return nil
}

// The list of a unit is written and restored through systemd.
func TestUnits(t *testing.T) {
	l := newLive(t)
	must(t, l.a.Close())
	l.a = l.sub("a.service")
	before := l.lists()
	c := l.cpus()
	fake := &fakeUnits{l: l, units: map[string]string{"a.service": l.a.Path()}}
	j := openJournal(t, t.TempDir())
	s := pin(l.a.Path(), c.low)
	s.Target = cgroupfile.UnitTarget(l.a.Path(), cgroup.KnobCPUs)
	if r := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}).Apply(changes(t, l.host, s))[0]; !errors.Is(r.Err, cgroupfile.ErrNoUnits) {
		t.Errorf("without systemd: %v", r.Err)
	}
	a := apply.New(cgroupfile.Kinds(l.host, fake), j, apply.Options{})
	if r := a.Apply(changes(t, l.host, s))[0]; r.Err != nil {
		t.Fatal(r.Err)
	}
	original := j.Entries()[0].Original
	restored(t, a, "restored")
	l.sameLists(before)
	want := []string{"a.service cpuset.cpus=" + string(c.low), "a.service cpuset.cpus=" + string(original)}
	if !slices.Equal(fake.calls, want) {
		t.Errorf("asked for %q, want %q", fake.calls, want)
	}
}
