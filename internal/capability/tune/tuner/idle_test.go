package tuner_test

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/linux/knob"
)

// idle writes the idle states of CPU 0: of each state name, exit latency, usage and disable.
func (h *host) idle(states string) {
	for i, state := range strings.Split(states, ",") {
		fields := strings.Fields(state)
		for j, name := range []string{"name", "latency", "usage", "disable"} {
			h.write(fmt.Sprintf("%s/cpuidle/state%d/%s", path.Dir(path.Dir(latency)), i, name), fields[j]+"\n")
		}
	}
}

// limited applies a limit to CPU 0, and returns the record.
func (h *host) limited(want, written string) tuner.Applied {
	h.t.Helper()
	h.do(func(u *tuner.Tuner) {
		_, err := u.Apply(tuner.Order{Settings: []tune.Setting{{
			Knob: tuner.ResumeLatency, Instance: "cpu0", File: latency, Want: want, Write: written, Support: knob.Settable, Phase: knob.Governors,
		}}})
		must(h.t, err)
	})
	a, _, err := tuner.Load(h.state)
	must(h.t, err)
	return a
}

// TestIdleStates checks what a verification says of a limit on wake-ups from two looks at the counts of idle states.
// A kernel that leaves a state above the limit more than once ignores the limit. A single count may be of an entry
// before the looks. Without counts the answer is unknown, never ok.
func TestIdleStates(t *testing.T) {
	t.Parallel()
	const driver = "/sys/devices/system/cpu/cpuidle/current_driver"
	const before = "POLL 0 5 0,C1 2 100 0,C6 133 40 0"
	for name, c := range map[string]struct {
		want, written string
		before, after string
		state         tune.State
		effective     string
		reason        string // a part of it
	}{
		"kept":               {"20us", "20", before, "POLL 0 6 0,C1 2 130 0,C6 133 40 0", tune.OK, "20us", ""},
		"entered":            {"20us", "20", before, "POLL 0 6 0,C1 2 130 0,C6 133 45 0", tune.Ignored, "133us", "5 x C6 (133us)"},
		"at the limit":       {"133us", "133", before, "POLL 0 6 0,C1 2 130 0,C6 133 45 0", tune.OK, "133us", ""},
		"below the limit":    {"132us", "132", before, "POLL 0 6 0,C1 2 130 0,C6 133 45 0", tune.Ignored, "133us", "C6"},
		"under way":          {"20us", "20", before, "POLL 0 6 0,C1 2 130 0,C6 133 41 0", tune.Unproven, "20us", "may have entered it before"},
		"two states":         {"1us", "1", before, "POLL 0 5 0,C1 2 101 0,C6 133 41 0", tune.Ignored, "133us", "1 x C1 (2us), 1 x C6 (133us)"},
		"busy":               {"20us", "20", before, before, tune.Unproven, "20us", "left no idle state"},
		"polls":              {"none", "n/a", before, "POLL 0 95 0,C1 2 100 0,C6 133 40 0", tune.OK, "none", ""},
		"does not poll":      {"none", "n/a", before, "POLL 0 95 0,C1 2 102 0,C6 133 40 0", tune.Ignored, "2us", "2 x C1 (2us)"},
		"has no poll":        {"none", "n/a", "WFI 1 7 0,DEEP 400 3 0", "WFI 1 9 0,DEEP 400 3 0", tune.Ignored, "1us", "no idle state within the limit is enabled"},
		"disabled":           {"1us", "1", "POLL 0 5 1,C1 2 100 0", "POLL 0 5 1,C1 2 109 0", tune.Ignored, "2us", "no idle state within the limit is enabled"},
		"enabled":            {"1us", "1", "POLL 0 5 0,C1 2 100 0", "POLL 0 5 0,C1 2 109 0", tune.Ignored, "2us", "9 x C1 (2us)"},
		"no limit":           {"any", "0", before, "POLL 0 6 0,C1 2 130 0,C6 133 45 0", tune.OK, "any", ""},
		"came back":          {"20us", "20", before, "POLL 0 0 0,C1 2 1 0,C6 133 50 0", tune.Unproven, "20us", "started again"},
		"unreadable":         {"20us", "20", before, "POLL 0 6 0,C1 ? 130 0,C6 133 45 0", tune.Unproven, "20us", "shows no idle states"},
		"other states":       {"20us", "20", "POLL 0 5 0", "POLL 0 6 0,C6 133 45 0", tune.Unproven, "20us", "started again"},
		"no states":          {"20us", "20", "", "", tune.Unproven, "20us", "no cpuidle driver"},
		"another limit then": {"20us", "20", before, "limit", tune.Unproven, "20us", "the limit changed"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := newHost(t)
			h.write(driver, "none\n")
			if c.before != "" {
				h.write(driver, "intel_idle\n")
				h.idle(c.before)
			}
			a := h.limited(c.want, c.written)
			if c.after == "limit" {
				h.write(latency, "500\n")
			}
			rows, err := a.VerifyOver(t.Context(), h.root.FS(), tuner.Kernel{}, nil, func(_ context.Context, d time.Duration) error {
				if d != 200*time.Millisecond {
					t.Errorf("it waits %v", d)
				}
				switch c.after {
				case "":
				case "limit":
					h.write(latency, c.written+"\n")
				default:
					h.idle(c.after)
				}
				return nil
			})
			must(t, err)
			row := rows[0]
			if row.State != c.state || row.Effective != c.effective || !strings.Contains(row.Reason, c.reason) || c.reason == "" && row.Reason != "" {
				t.Errorf("%+v", row)
			}
			if strings.Contains(row.Reason, "enabled") != strings.Contains(c.reason, "enabled") {
				t.Errorf("of the states that are enabled: %s", row.Reason)
			}
			if row.Differs() != (c.state == tune.Ignored) {
				t.Errorf("%s: it differs: %v", row.State, row.Differs())
			}
			h.write(latency, "700\n")
			for _, row := range a.Verify(h.root.FS(), tuner.Kernel{}, nil) {
				if row.State != tune.Drift {
					t.Errorf("another value in the file: %+v", row)
				}
			}
		})
	}
}

// TestIdleStatesLookOnce: a recording, the first look of an agent, and a look at another apply prove nothing. Another
// value in the file is a drift, whatever the counts are. Without a limit nothing waits, and a wait can be interrupted.
func TestIdleStatesLookOnce(t *testing.T) {
	t.Parallel()
	h := newHost(t)
	h.idle("POLL 0 5 0,C6 133 40 0")
	a := h.limited("20us", "20")
	rows, err := a.VerifyOver(t.Context(), h.root.FS(), tuner.Kernel{}, nil, nil)
	if err != nil || rows[0].State != tune.Unproven || !strings.Contains(rows[0].Reason, "only once") {
		t.Errorf("a recording: %+v, %v", rows, err)
	}
	before := a.Idle(h.root.FS())
	h.idle("POLL 0 5 0,C6 133 90 0")
	again := a
	again.Since = a.Since.Add(time.Second)
	if tuner.JudgeIdle(rows, before, again.Idle(h.root.FS())); rows[0].State != tune.Unproven {
		t.Errorf("another apply: %+v", rows)
	}
	interrupted := errors.New("interrupted")
	stop := func(context.Context, time.Duration) error { return interrupted }
	if _, err := a.VerifyOver(t.Context(), h.root.FS(), tuner.Kernel{}, nil, stop); !errors.Is(err, interrupted) {
		t.Errorf("interrupted: %v", err)
	}
	rows = a.Verify(h.root.FS(), tuner.Kernel{}, nil)
	rows[0].State = tune.Drift
	if tuner.JudgeIdle(rows, before, a.Idle(h.root.FS())); rows[0].State != tune.Drift {
		t.Errorf("a drift: %+v", rows)
	}
	unlimited := newHost(t).limited("any", "0")
	if _, err := unlimited.VerifyOver(t.Context(), h.root.FS(), tuner.Kernel{}, nil, stop); err != nil {
		t.Errorf("no limit, and it waits: %v", err)
	}
}
