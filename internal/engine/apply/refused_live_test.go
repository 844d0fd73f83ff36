package apply_test

import (
	"errors"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// Another writer's burst survives every write of a quota, also on the kernels that divide it. Every kernel refuses a
// quota below the burst, which changes nothing.
func TestSomebodysBurst(t *testing.T) {
	l := newLive(t)
	before := l.files()
	j := openJournal(t, t.TempDir())
	a := apply.New(cgroupfile.Kinds(l.host, nil), j, apply.Options{})
	for range 2 {
		l.applied(a, maxTo(l.a.Path(), 2*period))
		if b, err := l.a.Handle().Bandwidth(); err != nil || b.Burst != period/2 {
			t.Fatalf("burst %d, %v, want %d", b.Burst, err, period/2)
		}
		restored(t, a, "restored")
		l.same(before)
	}
	r := a.Apply(changes(t, l.host, maxTo(l.a.Path(), period/4)))[0]
	if !errors.Is(r.Err, apply.ErrRefused) || !errors.Is(r.Err, syscall.EINVAL) ||
		!strings.Contains(r.Err.Error(), "burst of 50000 µs, which Berth did not write") {
		t.Errorf("a quota below the burst: %v", r.Err)
	}
	l.same(before)
}

// The error explains what caused the kernel's EINVAL.
func TestRefusedWayBack(t *testing.T) {
	t.Run("somebody's burst", func(t *testing.T) {
		l := newLive(t)
		a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
		l.applied(a, maxTo(l.a.Path(), 2*period))
		must(t, l.a.SetBurst(period*3/2))
		refusedFor(t, a, "burst of 150000 µs, which Berth did not write")
		must(t, l.a.SetBurst(period/2))
		restored(t, a, "restored")
	})
	t.Run("a group below", func(t *testing.T) {
		l := newLive(t)
		a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
		l.applied(a, maxTo(l.top.Path(), 4*period))
		must(t, l.b.SetMax(3*period, period))
		if l.ratiosCount() {
			refusedFor(t, a, strconv.Quote(l.b.Path()))
			must(t, l.b.SetMax(period, period))
		}
		restored(t, a, "restored")
	})
	t.Run("a group above", func(t *testing.T) {
		l := newLive(t)
		a := apply.New(cgroupfile.Kinds(l.host, nil), openJournal(t, t.TempDir()), apply.Options{})
		l.applied(a, maxTo(l.b.Path(), period/2))
		must(t, l.a.SetMax(period/2, period))
		must(t, l.top.SetMax(period/2, period))
		if l.ratiosCount() {
			refusedFor(t, a, strconv.Quote(l.top.Path()))
			must(t, l.top.SetMax(2*period, period))
		}
		restored(t, a, "restored")
	})
}

// ratiosCount reports whether the kernel compares the limits of a group with the limits above and below it. cgroup v1
// does so and v2 does not.
func (l *live) ratiosCount() bool {
	l.t.Helper()
	hierarchy, err := l.host.Hierarchy(cgroup.CPU)
	must(l.t, err)
	return hierarchy.Version == 1
}

func refusedFor(t *testing.T, a *apply.Applier, text string) {
	t.Helper()
	list := a.Restore(nil, false)
	if got := outcomes(list); got != "failed" {
		t.Fatalf("outcomes %q: %+v", got, list)
	}
	err := list[0].Err
	if !errors.Is(err, apply.ErrRefused) || !errors.Is(err, syscall.EINVAL) || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want ErrRefused and %q", err, text)
	}
}
