package apply_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/unit"
)

const (
	boot   = "11111111-2222-3333-4444-555555555555"
	period = unit.Micros(100_000)
)

// live is the real host with a tree of scratch groups: top, top/a and top/b.
type live struct {
	t         *testing.T
	host      *cgroup.Host
	mount     string // of the cpu hierarchy
	top, a, b *scratch.Group
}

func openHost(t *testing.T) *cgroup.Host {
	t.Helper()
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	must(t, err)
	return host
}

func newLive(t *testing.T) *live {
	t.Helper()
	if testing.Short() {
		t.Skip("takes seconds on the real kernel: make test runs it")
	}
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	l := &live{t: t, host: openHost(t)}
	hierarchy, err := l.host.Hierarchy(cgroup.CPU)
	must(t, err)
	if hierarchy.ReadOnly {
		t.Skipf("%s is mounted read-only; runs in the VM: make test", hierarchy.Mount)
	}
	l.mount = hierarchy.Mount
	l.top, err = scratch.New(l.host, "", scratch.Name("test-apply"))
	must(t, err)
	t.Cleanup(func() {
		if err := l.top.Close(); err != nil {
			t.Error(err)
		}
	})
	l.a = l.sub("a")
	l.b = l.sub("b")
	must(t, l.top.SetMax(2*period, period))
	must(t, l.a.SetMax(period, period))
	must(t, l.a.SetBurst(period/2))
	must(t, l.b.SetMax(period, period))
	return l
}

func (l *live) sub(name string) *scratch.Group {
	l.t.Helper()
	g, err := l.top.Sub(name)
	must(l.t, err)
	return g
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func openJournal(t *testing.T, dir string) *journal.Journal {
	t.Helper()
	j, err := journal.Open(dir, boot, cgroupfile.Values())
	must(t, err)
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

// files returns the exact content of every bandwidth file of the tree.
func (l *live) files() map[string]string {
	l.t.Helper()
	return readFiles(l.t, filepath.Join(l.mount, l.top.Path()))
}

func readFiles(t *testing.T, dir string) map[string]string {
	t.Helper()
	content := make(map[string]string)
	for _, group := range []string{"", "a", "b"} {
		for _, pattern := range []string{"cpu.max*", "cpu.cfs_*", "cpu.weight", "cpu.shares", "cpu.idle"} {
			names, err := filepath.Glob(filepath.Join(dir, group, pattern))
			must(t, err)
			for _, name := range names {
				data, err := os.ReadFile(name)
				must(t, err)
				content[name] = string(data)
			}
		}
	}
	if len(content) < 6 {
		t.Fatalf("only %d bandwidth files below %s", len(content), dir)
	}
	return content
}

func (l *live) same(before map[string]string) {
	l.t.Helper()
	if d := cmp.Diff(before, l.files()); d != "" {
		l.t.Fatalf("files differ (-before +now):\n%s", d)
	}
}

func maxTo(g string, quota unit.Micros) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(g, cgroup.KnobMax), Value: plan.Value(cgroup.MaxValue(quota, period)),
		Owner: plan.OwnerBurst, Workload: "w", Why: "test",
	}
}

func burstTo(g string, burst unit.Micros) plan.Setting {
	return plan.Setting{
		Target: cgroupfile.Target(g, cgroup.KnobBurst), Value: plan.Value(cgroup.BurstValue(burst, period)),
		Owner: plan.OwnerBurst, Workload: "w", Why: "test",
	}
}

// changes plans the settings from the present values.
func changes(t *testing.T, host *cgroup.Host, settings ...plan.Setting) []plan.Change {
	t.Helper()
	observed := make(map[plan.Target]plan.Value)
	wanted := slices.Clone(settings)
	for i, s := range wanted {
		observed[s.Target] = value(t, host, s.Target)
		wanted[i].ID = knobIdentity(t, host, s.Target)
	}
	return plan.Order(cgroupfile.Values(), plan.Diff(cgroupfile.Values(), wanted, observed))
}

func identity(t *testing.T, host *cgroup.Host, path string) plan.Identity {
	t.Helper()
	g, err := host.Group(path)
	must(t, err)
	defer g.Close()
	id, err := g.ID(cgroup.CPU)
	must(t, err)
	return cgroupfile.Identity(id)
}

func value(t *testing.T, host *cgroup.Host, target plan.Target) plan.Value {
	t.Helper()
	g, err := host.Group(target.Object)
	must(t, err)
	defer g.Close()
	v, err := g.Read(cgroupfile.Knob(target))
	must(t, err)
	return plan.Value(v)
}

// applied applies the settings and fails on any error.
func (l *live) applied(a *apply.Applier, settings ...plan.Setting) {
	l.t.Helper()
	for _, r := range a.Apply(changes(l.t, l.host, settings...)) {
		if r.Err != nil || !r.Wrote || !cgroupfile.Values().Same(r.Change.Target, r.Effective, r.Change.Value) {
			l.t.Fatalf("%s: effective %s, wrote %v: %v", r.Change, r.Effective, r.Wrote, r.Err)
		}
	}
}

func outcomes(list []apply.Restored) string {
	var words []string
	for _, r := range list {
		words = append(words, string(r.Outcome))
	}
	return strings.Join(words, " ")
}

// restored restores everything and checks the outcomes.
func restored(t *testing.T, a *apply.Applier, want string) {
	t.Helper()
	list := a.Restore(nil, false)
	if got := outcomes(list); got != want {
		t.Fatalf("outcomes %q, want %q: %+v", got, want, list)
	}
	for _, r := range list {
		if r.Outcome != apply.OutcomeFailed && r.Err != nil {
			t.Errorf("%s: %v", r.Entry.Target, r.Err)
		}
	}
}

func TestApplyAndRestore(t *testing.T) {
	l := newLive(t)
	before := l.files()
	dir := t.TempDir()
	j := openJournal(t, dir)
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	top, sub := l.top.Path(), l.a.Path()
	l.applied(a, maxTo(top, 4*period), maxTo(sub, 3*period), burstTo(sub, 3*period))
	l.applied(a, maxTo(top, 2*period+1000), maxTo(sub, 2*period), burstTo(sub, period))
	if n := len(j.Entries()); n != 3 {
		t.Fatalf("%d entries, want 3", n)
	}
	for _, e := range j.Entries() {
		if e.Writes != 2 || e.Owner != plan.OwnerBurst || e.Workload != "w" || e.Since.IsZero() {
			t.Errorf("entry %+v", e)
		}
	}
	during := l.files()
	if got := outcomes(a.Restore(nil, true)); got != "restored restored restored" {
		t.Errorf("dry run: %q", got)
	}
	l.same(during)
	if got := outcomes(a.Restore(func(e journal.Entry) bool { return e.Owner == "nobody" }, false)); got != "" {
		t.Errorf("an owner without entries: %q", got)
	}
	l.same(during)
	restored(t, a, "restored restored restored")
	l.same(before)
	if s, err := journal.Load(dir, cgroupfile.Values()); err != nil || len(s.Entries) != 0 {
		t.Errorf("journal afterwards: %v, %v", s.Entries, err)
	}
}

// After the spec confirms a resize, a restoration leads to the new value. That holds whether the value is still in
// effect or Berth has already overwritten it.
func TestRebase(t *testing.T) {
	for name, stands := range map[string]bool{"it stands": true, "it was written over": false} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			dir := t.TempDir()
			j := openJournal(t, dir)
			a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
			target := cgroupfile.Target(l.a.Path(), cgroup.KnobMax)
			l.applied(a, maxTo(l.a.Path(), period*2))
			must(t, l.a.SetMax(period*3/2, period))
			if !stands {
				l.applied(a, maxTo(l.a.Path(), period*2))
			}
			must(t, j.Rebase(target, plan.OwnerBurst, "150000 100000"))
			want := "restored"
			if stands {
				want = "already"
			}
			must(t, j.Close())
			restored(t, apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, dir), apply.Options{}), want)
			if v := value(t, l.host, target); v != "150000 100000" {
				t.Errorf("restored to %s", v)
			}
		})
	}
}

func TestNothingToDo(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	c := plan.Change{Setting: maxTo(l.a.Path(), period), From: plan.Value(cgroup.MaxValue(period, period))}
	c.ID = identity(t, l.host, c.Object)
	if r := a.Apply([]plan.Change{c})[0]; r.Err != nil || r.Wrote {
		t.Errorf("%+v", r)
	}
	if len(j.Entries()) != 0 {
		t.Errorf("journaled: %v", j.Entries())
	}
}

func TestRefusals(t *testing.T) {
	l := newLive(t)
	before := l.files()
	sub := l.a.Path()
	from := plan.Value(cgroup.MaxValue(period, period))
	tests := []struct {
		name   string
		change plan.Change
		want   error
		text   string
	}{
		{
			"changed meanwhile",
			plan.Change{Setting: maxTo(sub, 2*period), From: plan.Value(cgroup.MaxValue(2*period, period))},
			apply.ErrChanged, "100000 100000",
		},
		{
			"the kernel says no",
			plan.Change{Setting: burstTo(sub, 2*period), From: plan.Value(cgroup.BurstValue(period/2, period))},
			apply.ErrRefused, "200000",
		},
		{"no such group", plan.Change{Setting: maxTo(sub+"/none", period), From: from}, apply.ErrGone, sub + "/none"},
		{"no such knob", plan.Change{Setting: plan.Setting{
			Target: cgroupfile.Target(sub, "cpu.tea"), Value: "1 1",
		}, From: "0 1"}, cgroup.ErrNoKnob, "cpu.tea"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
			tt.change.ID = identity(t, l.host, sub)
			r := a.Apply([]plan.Change{tt.change})[0]
			if !errors.Is(r.Err, tt.want) || !strings.Contains(r.Err.Error(), tt.text) || r.Wrote || r.Applied() {
				t.Errorf("%v (wrote %v), want %v and %q", r.Err, r.Wrote, tt.want, tt.text)
			}
			l.same(before)
			if got := outcomes(a.Restore(nil, false)); strings.Contains(got, "drifted") || strings.Contains(got, "failed") {
				t.Errorf("restore: %q", got)
			}
			l.same(before)
		})
	}
}
