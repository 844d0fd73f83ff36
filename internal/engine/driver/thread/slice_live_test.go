package thread_test

import (
	"errors"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/thread"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// starved returns a Slice that fails as if no new thread ran, and counts its calls.
func starved(asked *int) thread.Slice {
	return func() (time.Duration, error) {
		*asked++
		return 0, kernel.ErrStarved
	}
}

// TestLiveWayBackWithoutAsking checks that neither reading nor undoing a policy starts a new thread. Real-time threads
// with this very policy may occupy all CPUs, so that a new thread would never run.
func TestLiveWayBackWithoutAsking(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	target := thread.PolicyTarget(u.top.Path(), "idle")
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		if r := u.apply(a, target); r.Err != nil {
			t.Fatalf("%+v", r)
		}
	})
	u.first.Tell("fork")
	asked := 0
	a, j := u.asking(starved(&asked), nil)
	if now := a.Read([]plan.Target{target})[0]; now.Value != thread.All || now.Err != nil {
		t.Errorf("%+v", now)
	}
	u.change(func(tid int) bool { return tid == u.second.Process.Pid }, func(s *kernel.Scheduled) { s.Class = kernel.Other })
	if all := a.Restore(nil, false); len(all) != 1 || !errors.Is(all[0].Err, apply.ErrChanged) {
		t.Errorf("another program's policy: %+v", all)
	}
	u.change(func(tid int) bool { return tid == u.second.Process.Pid }, func(s *kernel.Scheduled) { s.Class = kernel.Batch })
	u.restored(a, apply.OutcomeAlready)
	u.asBefore("undone", before, kernel.Other)
	if asked > 0 || len(j.Entries()) > 0 {
		t.Errorf("asked %d times, entries %v", asked, j.Entries())
	}
	must(t, j.Close())
}

// TestLiveStarved checks the case in which no new thread runs. A policy is not applied, because the threads' original
// slices are unknown. A slice stays on record, and other targets are restored.
func TestLiveStarved(t *testing.T) {
	u := newUnit(t)
	before := u.has()
	batch, sliced := thread.PolicyTarget(u.top.Path(), "batch"), thread.SliceTarget(u.top.Path(), "7ms")
	asked := 0
	a, j := u.asking(starved(&asked), nil)
	if r := u.apply(a, batch); !errors.Is(r.Err, kernel.ErrStarved) || r.Wrote || asked == 0 {
		t.Errorf("asked %d times: %+v", asked, r)
	}
	u.restored(a, apply.OutcomeAlready)
	must(t, j.Close())
	u.asBefore("not applied", before, kernel.Other)

	base, err := kernel.DefaultThreadSlice()
	must(t, err)
	targets := []plan.Target{batch}
	if base > 0 {
		targets = append(targets, sliced)
	}
	u.with(func(a *apply.Applier, _ *journal.Journal) {
		for _, target := range targets {
			if r := u.apply(a, target); r.Err != nil {
				t.Fatalf("%+v", r)
			}
		}
	})
	a, j = u.asking(starved(&asked), nil)
	for _, r := range a.Restore(nil, false) {
		switch {
		case r.Entry.Target == batch && r.Outcome != apply.OutcomeRestored:
			t.Errorf("%+v", r)
		case r.Entry.Target == sliced && (r.Outcome != apply.OutcomeFailed || !errors.Is(r.Err, kernel.ErrStarved)):
			t.Errorf("%+v", r)
		}
	}
	must(t, j.Close())
	u.with(func(a *apply.Applier, j *journal.Journal) {
		a.Restore(nil, false)
		u.asBefore("undone", before, kernel.Other)
		if len(j.Entries()) > 0 {
			t.Errorf("entries %v", j.Entries())
		}
	})
}
