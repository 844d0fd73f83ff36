package reconcile

import (
	"testing"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// What is not put back is reported once, and again when something else stands in the
// way.
func TestUnrestored(t *testing.T) {
	target := cgroupfile.UnitTarget("x.scope", cgroup.KnobCPUs)
	type try struct {
		at       time.Duration
		id       plan.Identity
		outcome  apply.Outcome
		found    plan.Value
		err      error
		reported bool
	}
	for name, tries := range map[string][]try{
		"restored":       {{at: 0, outcome: apply.OutcomeRestored}, {at: 0, outcome: apply.OutcomeGone}},
		"reported once":  {{0, "a", apply.OutcomeDrifted, "1", nil, true}, {10 * time.Second, "a", apply.OutcomeDrifted, "1", nil, false}},
		"another value":  {{0, "a", apply.OutcomeDrifted, "1", nil, true}, {10 * time.Second, "a", apply.OutcomeDrifted, "2", nil, true}},
		"another object": {{0, "a", apply.OutcomeFailed, "1", apply.ErrRefused, true}, {0, "b", apply.OutcomeFailed, "1", apply.ErrRefused, true}},
		"restored between": {
			{0, "a", apply.OutcomeDrifted, "1", nil, true},
			{10 * time.Second, "a", apply.OutcomeRestored, "1", nil, false},
			{10 * time.Second, "a", apply.OutcomeDrifted, "1", nil, true},
		},
		"another object left to systemd": {
			{0, "a", apply.OutcomeFailed, "1", apply.ErrRefused, true},
			{0, "b", apply.OutcomeFailed, "1", apply.ErrDeferred, false},
			{0, "b", apply.OutcomeFailed, "1", apply.ErrRefused, true},
		},
		"not in force": {
			{0, "a", apply.OutcomeDormant, "", nil, false},
			{10 * time.Second, "a", apply.OutcomeFailed, "", apply.ErrRefused, true},
			{20 * time.Second, "a", apply.OutcomeDormant, "", nil, false},
			{30 * time.Second, "a", apply.OutcomeRestored, "", nil, false},
		},
		"left to systemd": {
			{0, "a", apply.OutcomeFailed, "1", apply.ErrDeferred, false},
			{0, "a", apply.OutcomeFailed, "1", apply.ErrRefused, true},
			{10 * time.Second, "a", apply.OutcomeFailed, "1", apply.ErrDeferred, false},
			{10 * time.Second, "a", apply.OutcomeFailed, "1", apply.ErrRefused, false},
		},
	} {
		t.Run(name, func(t *testing.T) {
			var u Unrestored
			for i, c := range tries {
				e := journal.Entry{Target: target, ID: c.id}
				if !u.Due(e, c.at) {
					t.Errorf("try %d is not due", i)
				}
				if reported := u.Take(apply.Restored{Entry: e, Outcome: c.outcome, Found: c.found, Err: c.err}, c.at); reported != c.reported {
					t.Errorf("try %d: reported %t, want %t", i, reported, c.reported)
				}
			}
		})
	}
}

func TestUnrestoredWaits(t *testing.T) {
	var u Unrestored
	target := cgroupfile.UnitTarget("x.scope", cgroup.KnobCPUs)
	e := journal.Entry{Target: target}
	always := func(plan.Target) bool { return true }
	if next := u.next(0, time.Minute); next != time.Minute {
		t.Errorf("nothing is due after %s", next)
	}
	u.Take(apply.Restored{Entry: e, Outcome: apply.OutcomeFailed, Err: apply.ErrRefused}, time.Second)
	if u.Due(e, 11*time.Second-1) || !u.Due(e, 11*time.Second) || u.next(2*time.Second, time.Minute) != 9*time.Second {
		t.Errorf("due after %s", u.next(2*time.Second, time.Minute))
	}
	if u.Forget(target); !u.Due(e, 2*time.Second) {
		t.Error("not tried at once")
	}
	u.Take(apply.Restored{Entry: e, Outcome: apply.OutcomeFailed, Err: apply.ErrDeferred}, time.Second)
	if !u.awaits("x.scope", cgroup.KnobCPUs, always) || u.awaits("x.scope", cgroup.KnobMems, always) || u.next(time.Second, time.Minute) != 0 {
		t.Error("the next pass does not have systemd's answer")
	}
	u.Keep(func(plan.Target) bool { return false })
	if u.awaits("x.scope", cgroup.KnobCPUs, always) {
		t.Error("systemd is asked for what is not to be put back any more")
	}
}
