package apply_test

import (
	"errors"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
	"github.com/berth-project/berth/test/disk"
)

// at returns Options that call do once when step is reached.
func at(step apply.Step, do func()) apply.Options {
	return apply.Options{Step: func(s apply.Step, _ plan.Target) {
		if s == step && do != nil {
			do()
			do = nil
		}
	}}
}

func TestGroupDeletedMidWrite(t *testing.T) {
	steps := []apply.Step{apply.StepRead, apply.StepBegun, apply.StepIntended, apply.StepWritten}
	for _, step := range steps {
		for _, again := range []bool{false, true} {
			name := string(step)
			if again {
				name += ", made again"
			}
			t.Run(name, func(t *testing.T) {
				l := newLive(t)
				j := openJournal(t, t.TempDir())
				path := l.b.Path()
				target := cgroupfile.Target(path, cgroup.KnobMax)
				a := apply.New(cgroupfile.Kinds(l.host, nil), j, at(step, func() {
					must(t, l.b.Close())
					if again {
						l.b = l.sub("b")
					}
				}))
				r := a.Apply(changes(t, l.host, maxTo(path, 2*period)))[0]
				if !errors.Is(r.Err, apply.ErrGone) {
					t.Errorf("error %v, want ErrGone", r.Err)
				}
				if len(j.Entries()) != 0 {
					t.Errorf("entries %v", j.Entries())
				}
				if again && value(t, l.host, target) != "max 100000" {
					t.Errorf("the new group has %s", value(t, l.host, target))
				}
			})
		}
	}
}

func TestRestoreOfGoneGroups(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.a.Path(), 2*period), maxTo(l.b.Path(), 2*period))
	must(t, l.a.Close())
	must(t, l.b.Close())
	l.b = l.sub("b")
	must(t, l.b.SetMax(2*period, period)) // looks like Berth's value, but is not
	restored(t, a, "gone gone")
	if v := value(t, l.host, cgroupfile.Target(l.b.Path(), cgroup.KnobMax)); v != "200000 100000" {
		t.Errorf("the new group has %s", v)
	}
	if len(j.Entries()) != 0 {
		t.Errorf("entries %v", j.Entries())
	}
}

// A group that was created again between the observation and the write is left alone. A change without a group identity
// is refused too.
func TestApplyToAnotherGroup(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.b.Path(), 2*period))
	raise := changes(t, l.host, maxTo(l.b.Path(), 3*period/2))
	must(t, l.b.Close())
	l.b = l.sub("b")
	must(t, l.b.SetMax(2*period, period))
	before := l.files()
	nobody := changes(t, l.host, maxTo(l.b.Path(), period))
	nobody[0].ID = ""
	for _, c := range append(raise, nobody...) {
		if r := a.Apply([]plan.Change{c})[0]; !errors.Is(r.Err, apply.ErrGone) || r.Wrote {
			t.Errorf("wrote %v: %v, want ErrGone", r.Wrote, r.Err)
		}
	}
	l.same(before)
	if len(j.Entries()) != 0 {
		t.Errorf("entries %v", j.Entries())
	}
}

// A group that was created again gets a new original.
func TestApplyToGroupMadeAgain(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.b.Path(), 2*period))
	must(t, l.b.Close())
	l.b = l.sub("b")
	before := l.files()
	l.applied(a, maxTo(l.b.Path(), period/2))
	restored(t, a, "restored")
	l.same(before)
}

func TestDriftIsNotOverwritten(t *testing.T) {
	l := newLive(t)
	before := l.files()
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.a.Path(), 2*period), maxTo(l.b.Path(), 2*period))
	must(t, l.a.SetMax(77_000, period))
	drifted := l.files()
	if got := outcomes(a.Restore(nil, true)); got != "drifted restored" {
		t.Errorf("dry run: %q", got)
	}
	l.same(drifted)
	restored(t, a, "drifted restored")
	if v := value(t, l.host, cgroupfile.Target(l.a.Path(), cgroup.KnobMax)); v != "77000 100000" {
		t.Errorf("the drifted value became %s", v)
	}
	if len(j.Entries()) != 1 {
		t.Fatalf("entries %v", j.Entries())
	}
	// The entry is removed once the original value is in effect again, whoever wrote it.
	must(t, l.a.SetMax(period, period))
	restored(t, a, "already")
	l.same(before)
	if len(j.Entries()) != 0 {
		t.Errorf("entries %v", j.Entries())
	}
}

// A value that changes between planning and restoring is compared again.
func TestDriftDuringRestore(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	l.applied(apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}), maxTo(l.a.Path(), 2*period), maxTo(l.b.Path(), 2*period))
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, at(apply.StepRestored, func() {
		must(t, l.a.SetMax(66_000, period))
		must(t, l.b.SetMax(66_000, period))
	}))
	list := a.Restore(nil, false)
	if got := outcomes(list); got != "failed drifted" || !errors.Is(list[0].Err, apply.ErrNotEffective) {
		t.Errorf("outcomes %q: %v", got, list[0].Err)
	}
	if len(j.Entries()) != 2 {
		t.Errorf("entries %v", j.Entries())
	}
}

func TestNotEffective(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, at(apply.StepWritten, func() { must(t, l.a.SetMax(55_000, period)) }))
	r := a.Apply(changes(t, l.host, maxTo(l.a.Path(), 2*period)))[0]
	if !errors.Is(r.Err, apply.ErrNotEffective) || !r.Wrote || r.Effective != "55000 100000" {
		t.Errorf("%+v", r)
	}
	for _, text := range []string{"55000 100000", "200000 100000"} {
		if r.Err == nil || !strings.Contains(r.Err.Error(), text) {
			t.Errorf("error %v does not name %s", r.Err, text)
		}
	}
}

// The kernel doubles a too short period together with its quota and burst. Neither apply nor restore treats that as
// another writer's value, and the ratio is restored.
func TestDoubledPeriod(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.a.Path(), period*3/2), burstTo(l.a.Path(), period))
	double := func() {
		must(t, l.a.SetBurst(0))
		must(t, l.a.SetMax(period*3, period*2))
		must(t, l.a.SetBurst(period*2))
	}
	double()
	l.applied(a, maxTo(l.a.Path(), period*2), burstTo(l.a.Path(), period*3/2))
	for knob, want := range map[cgroup.Knob]plan.Value{
		cgroup.KnobMax: "400000 200000", cgroup.KnobBurst: "300000 200000",
	} {
		if v := value(t, l.host, cgroupfile.Target(l.a.Path(), knob)); v != want {
			t.Errorf("%s: %s, want %s", knob, v, want)
		}
	}
	restored(t, a, "restored restored")
	for knob, want := range map[cgroup.Knob]plan.Value{
		cgroup.KnobMax: "200000 200000", cgroup.KnobBurst: "100000 200000",
	} {
		if v := value(t, l.host, cgroupfile.Target(l.a.Path(), knob)); v != want {
			t.Errorf("%s: %s, want %s", knob, v, want)
		}
	}
}

// A change that depends on a failed change is skipped, and independent changes are made.
func TestSkipped(t *testing.T) {
	l := newLive(t)
	a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
	plans := changes(t, l.host, maxTo(l.a.Path(), period*3/2), burstTo(l.a.Path(), period*3/2), maxTo(l.b.Path(), period*2))
	must(t, l.a.SetMax(period*2, period)) // the plan for a is now stale
	results := a.Apply(plans)
	want := []error{apply.ErrChanged, apply.ErrSkipped, nil}
	for i, r := range results {
		if !errors.Is(r.Err, want[i]) || r.Applied() != (want[i] == nil) {
			t.Errorf("%s: %v, want %v", r.Change, r.Err, want[i])
		}
	}
	if !errors.Is(results[1].Err, apply.ErrChanged) {
		t.Errorf("%v does not hold its cause", results[1].Err)
	}
}

func TestJournalRefuses(t *testing.T) {
	l := newLive(t)
	before := l.files()
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.a.Path(), period*2))
	must(t, j.Close())

	r := a.Apply(changes(t, l.host, maxTo(l.a.Path(), period*3/2)))[0]
	if !errors.Is(r.Err, apply.ErrJournal) || r.Wrote || r.Applied() {
		t.Errorf("moving on: %+v", r)
	}
	r = a.Apply(changes(t, l.host, maxTo(l.b.Path(), period*2)))[0]
	if !errors.Is(r.Err, apply.ErrJournal) || r.Wrote || r.Applied() {
		t.Errorf("first write: %+v", r)
	}
	r = a.Apply(changes(t, l.host, maxTo(l.a.Path(), period)))[0]
	if !errors.Is(r.Err, apply.ErrJournal) || !r.Wrote || !r.Applied() {
		t.Errorf("way back: %+v", r)
	}
	l.same(before)
}

func TestFullDisk(t *testing.T) {
	l := newLive(t)
	before := l.files()
	dir := disk.Small(t)
	j := openJournal(t, dir)
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	l.applied(a, maxTo(l.a.Path(), period*3/2), burstTo(l.a.Path(), period*3/2), maxTo(l.top.Path(), period*3))
	disk.Fill(t, dir)
	for i := range 1000 { // until the reserved space is used up
		quota := period*3/2 + 1000*unit.Micros(1+i%2)
		r := a.Apply(changes(t, l.host, maxTo(l.b.Path(), quota)))[0]
		if r.Err == nil {
			continue
		}
		if !errors.Is(r.Err, apply.ErrJournal) || !errors.Is(r.Err, unix.ENOSPC) || r.Wrote {
			t.Fatalf("%+v", r)
		}
		break
	}
	full := l.files()
	for _, r := range a.Apply(changes(t, l.host, maxTo(l.a.Path(), period*2), burstTo(l.a.Path(), period))) {
		if !errors.Is(r.Err, unix.ENOSPC) || r.Wrote {
			t.Errorf("on a full disk: %+v", r)
		}
	}
	l.same(full)
	// A knob can return to its original before any rollback.
	for _, r := range a.Apply(changes(t, l.host, maxTo(l.a.Path(), period), burstTo(l.a.Path(), period/2))) {
		if r.Err != nil || !r.Wrote {
			t.Errorf("back to the original: %+v", r)
		}
	}
	must(t, j.Close())
	j = openJournal(t, dir)
	for _, r := range apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{}).Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored && r.Outcome != apply.OutcomeAlready {
			t.Errorf("%+v", r)
		}
	}
	l.same(before)
	if len(j.Entries()) != 0 {
		t.Errorf("entries %v", j.Entries())
	}
}

// If a quota cannot be restored, the burst that depends on it stays too, with the entries of both.
func TestRestoreSkips(t *testing.T) {
	l := newLive(t)
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	must(t, l.b.SetBurst(period))
	l.applied(a, maxTo(l.b.Path(), period/2), burstTo(l.b.Path(), period/2))
	must(t, l.b.SetMax(60_000, period)) // another writer's value, below the original burst
	list := a.Restore(nil, false)
	if got := outcomes(list); got != "drifted failed" || !errors.Is(list[1].Err, unix.EINVAL) ||
		!errors.Is(list[1].Err, apply.ErrRefused) || !strings.Contains(list[1].Err.Error(), "quota of 60000 µs, which Berth did not write") {
		t.Errorf("%q: %v", got, list[1].Err)
	}
	if len(j.Entries()) != 2 {
		t.Errorf("entries %v", j.Entries())
	}
}
