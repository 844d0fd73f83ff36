package reconcile_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// overtake makes another program write each of the lists to a group, one after each check and before Berth's write. The
// group needs a list of its own: only then is Berth asked in between whether it answered the list.
func (l *live) overtake(g *scratch.Group, lists ...cpuset.Set) {
	l.Cleanup(func() {
		if len(lists) > 0 {
			l.Errorf("%d lists were not written to %s", len(lists), g.Path())
		}
	})
	l.answered = func(group string, mems bool, _ cpuset.Set) bool {
		if group == g.Path() && !mems && len(lists) > 0 {
			must(l.T, g.SetCPUs(lists[0]))
			lists = lists[1:]
		}
		return false
	}
}

// state returns the state of a group in a report.
func (l *live) state(r reconcile.Report, g *scratch.Group) reconcile.State {
	l.Helper()
	at, found := r.Of(g.Path())
	if !found {
		l.Fatalf("no %s in %+v", g.Path(), r.Groups)
	}
	return at.State
}

// Another program writes a new group's list between Berth's check and Berth's write. If it writes the desired list,
// nothing is wrong. Any other list is a failure only if that happens again at the next check, and is reported once.
func TestOvertaken(t *testing.T) {
	const applied, pending, failed = reconcile.StateApplied, reconcile.StatePending, reconcile.StateFailed
	for name, c := range map[string]struct {
		writes func(l *live) []cpuset.Set
		states []reconcile.State
		events int
		// leaves is the list after Berth has ended.
		leaves func(l *live) cpuset.Set
	}{
		"the desired list": {
			func(l *live) []cpuset.Set { return []cpuset.Set{l.high} },
			[]reconcile.State{applied, applied},
			0, func(l *live) cpuset.Set { return l.high },
		},
		"another list once": {
			func(l *live) []cpuset.Set { return []cpuset.Set{l.low} },
			[]reconcile.State{pending, applied, applied},
			0, func(l *live) cpuset.Set { return l.low },
		},
		"another list, then the desired one": {
			func(l *live) []cpuset.Set { return []cpuset.Set{l.low, l.high} },
			[]reconcile.State{pending, applied, applied},
			0, func(l *live) cpuset.Set { return l.high },
		},
		"other lists at each check": {
			func(l *live) []cpuset.Set { return []cpuset.Set{l.low, l.all, l.low, l.all, l.low} },
			[]reconcile.State{pending, failed, failed, failed, failed, applied},
			1, func(l *live) cpuset.Set { return l.low },
		},
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			late := l.top.Path() + "/pod/late"
			l.start()
			l.reconciler.Want(reconcile.Of(reconcile.Group{Group: late, CPUs: l.high, Pinned: true, Workload: "ns/pod"}))
			if r := l.try(0); len(r.Groups) != 1 || r.Groups[0].State != pending {
				t.Fatalf("a group that does not exist yet: %+v", r.Groups)
			}
			g := l.sub(l.pod, "late")
			must(t, g.SetCPUs(l.all))
			l.overtake(g, c.writes(l)...)
			var states []reconcile.State
			var events []reconcile.Event
			for range c.states {
				r := l.try(time.Second)
				states, events = append(states, l.state(r, g)), append(events, r.Events...)
			}
			if !slices.Equal(states, c.states) {
				t.Errorf("states %v, want %v", states, c.states)
			}
			for _, e := range events {
				if e.Reason != v1alpha1.EventCPUPinFailed || e.Workload != "ns/pod" || !strings.Contains(e.Text, late) {
					t.Errorf("event %+v", e)
				}
			}
			if len(events) != c.events {
				t.Errorf("%d events, want %d: %+v", len(events), c.events, events)
			}
			l.has(g, l.high, unit.NoLimit)
			l.reconciler.Want(nil)
			l.try(time.Second)
			l.has(g, c.leaves(l), unit.NoLimit)
			l.empty()
		})
	}
}

// A list that moves is two writes. Another program that makes the move in between has done Berth's work.
func TestOvertakenInAMove(t *testing.T) {
	l := newLive(t)
	desired := reconcile.Group{Group: l.c.Path(), CPUs: l.low, Pinned: true, Workload: "ns/pod"}
	l.reconciler.Want(reconcile.Of(desired))
	l.pass(0)
	desired.CPUs = l.high
	l.reconciler.Want(reconcile.Of(desired))
	l.overtake(l.c, l.high)
	l.pass(time.Second)
	l.has(l.c, l.high, 2*period)
	l.answered = nil
	if r := l.pass(time.Second); r.Writes != 0 {
		t.Errorf("%d writes over the desired list", r.Writes)
	}
}

// A group that waits for the CPUs of another group gets them at the next check, also if another program took them from
// that group. Neither group reports a failure.
func TestOvertakenGroupInTheWay(t *testing.T) {
	for name, writes := range map[string]func(l *live) cpuset.Set{
		"the desired list": func(l *live) cpuset.Set { return l.all.Difference(l.high) },
		"another list":     func(l *live) cpuset.Set { return l.high },
	} {
		t.Run(name, func(t *testing.T) {
			l := newLive(t)
			must(t, l.c.SetCPUs(l.low))
			must(t, l.other.SetCPUs(l.all))
			l.start()
			l.reconciler.Want(reconcile.Of(l.pinned()...))
			l.overtake(l.other, writes(l))
			r := l.try(0)
			if at := l.state(r, l.c); at != reconcile.StatePending || len(r.Events) > 0 {
				t.Errorf("it is %s while another group is in the way, events %+v", at, r.Events)
			}
			l.pass(time.Second)
			l.has(l.c, l.high, unit.NoLimit)
			l.has(l.other, l.all.Difference(l.high), unit.NoLimit)
			l.reconciler.Want(nil)
			l.pass(time.Second)
			l.has(l.other, writes(l), unit.NoLimit)
			l.empty()
		})
	}
}
