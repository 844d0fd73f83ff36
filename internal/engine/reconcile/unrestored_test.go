package reconcile

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// A value that is not restored is reported once, and again when there is a different obstacle.
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

// TestUnrestoredSaysWhatWaits: a deferred restoration is logged once after a minute, and again if it is deferred again
// later.
func TestUnrestoredSaysWhatWaits(t *testing.T) {
	var log strings.Builder
	r := &Reconciler{opts: Options{Log: slog.New(slog.NewTextHandler(&log, nil))}}
	res := apply.Restored{
		Entry:   journal.Entry{Target: cgroupfile.Target("app", cgroup.KnobMems), ID: "a", Original: "0-1", Intent: "0"},
		Outcome: apply.OutcomeFailed, Found: "0", Err: fmt.Errorf("%w: a memory policy would be rebound", apply.ErrDeferred),
	}
	said := func(at time.Duration, outcome apply.Outcome, err error) string {
		log.Reset()
		r.now, res.Outcome, res.Err = at, outcome, err
		r.takeRestored(res)
		return log.String()
	}
	putOff := res.Err
	for _, c := range []struct {
		at      time.Duration
		outcome apply.Outcome
		err     error
		said    bool
	}{
		{0, apply.OutcomeFailed, putOff, false},
		{time.Minute - 1, apply.OutcomeFailed, putOff, false},
		{time.Minute, apply.OutcomeFailed, putOff, true},
		{time.Hour, apply.OutcomeFailed, putOff, false},
		{time.Hour, apply.OutcomeRestored, nil, false},
		{2 * time.Hour, apply.OutcomeFailed, putOff, false},
		{2*time.Hour + time.Minute, apply.OutcomeFailed, putOff, true},
	} {
		text := said(c.at, c.outcome, c.err)
		is := strings.Contains(text, "level=WARN") && strings.Contains(text, "app cpuset.mems") && strings.Contains(text, "rebound")
		if is != c.said || !c.said && text != "" {
			t.Errorf("at %s: %q", c.at, text)
		}
	}
	if len(r.report.Errors)+len(r.report.Events) > 0 {
		t.Errorf("counts as a failure: %+v", r.report)
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
