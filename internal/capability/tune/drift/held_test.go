package drift_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// TestHeldByTheRecord checks that the record of the applied profile shows which lists the profile has if the journal of
// profiles cannot be read. Without a record, or after a reboot ended it, the profile has none. An unreadable record
// holds everything back.
func TestHeldByTheRecord(t *testing.T) {
	mine, another := cgroupfile.Target("db.service", cgroup.KnobCPUs), cgroupfile.Target("web.service", cgroup.KnobCPUs)
	record := func(boot string, phase tuner.Phase) string {
		a := tuner.Applied{Boot: boot, Phase: phase, Settings: []tuner.Setting{{Target: cgroupfile.UnitTarget("db.service", cgroup.KnobCPUs)}}}
		a.Profile.Name = "database"
		text, err := json.Marshal(a)
		must(t, err)
		return string(text)
	}
	for name, test := range map[string]struct {
		record        string
		held, unknown bool // of the unit that the profile names
	}{
		"committed":       {record("boot", tuner.Committed), true, false},
		"being undone":    {record("boot", tuner.Undoing), true, false},
		"of another boot": {record("another", tuner.Committed), false, false},
		"none":            {"", false, false},
		"damaged":         {"{", false, true},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			file := filepath.Join(state, tuner.Subdir, "journal")
			must(t, os.MkdirAll(file, 0o700)) // a directory cannot be read as a file
			if test.record != "" {
				must(t, os.WriteFile(filepath.Join(state, tuner.Subdir, "applied"), []byte(test.record), 0o600))
			}
			var told error
			ask := drift.Held(state, "boot", func() time.Duration { return time.Hour }, func(err error) { told = err })
			for at, held := range map[plan.Target]bool{mine: test.held, another: false} {
				err := ask(at)
				if errors.Is(err, drift.ErrHeld) != held || (err != nil) != (held || test.unknown) || held && !strings.Contains(err.Error(), "database") {
					t.Errorf("%s: %v", at, err)
				}
				if told == nil || !strings.Contains(told.Error(), file) {
					t.Errorf("told %v", told)
				}
			}
			must(t, os.Remove(file))
			if err := ask(another); err != nil || told != nil {
				t.Errorf("once it can be read: %v; told %v", err, told)
			}
		})
	}
}

// TestHeldAfterABoot checks the first minutes of a boot. A profile committed in an earlier boot keeps its lists,
// exactly those that its apply may write, because berth-tune applies it again after the agent has started.
func TestHeldAfterABoot(t *testing.T) {
	const young, late = 10*time.Minute - time.Second, 10 * time.Minute
	list := func(unit string) plan.Target { return cgroupfile.Target(unit, cgroup.KnobCPUs) }
	setting := func(unit string) []tuner.Setting {
		return []tuner.Setting{{Target: cgroupfile.UnitTarget(unit, cgroup.KnobCPUs)}}
	}
	applied := func(boot string, phase tuner.Phase) tuner.Applied {
		a := tuner.Applied{Boot: boot, Phase: phase, Settings: setting("set.service"), Left: setting("left.service"), Dormant: setting("dormant.service")}
		a.Profile.Name = "database"
		return a
	}
	encode := func(a tuner.Applied) string {
		text, err := json.Marshal(a)
		must(t, err)
		return string(text)
	}
	covered := applied("boot", tuner.Trial)
	former := applied("another", tuner.Committed)
	covered.Settings, covered.Left, covered.Dormant, covered.Former = nil, nil, nil, &former
	for name, test := range map[string]struct {
		record        string
		at            time.Duration
		held, damaged bool
	}{
		"of another boot":               {encode(applied("another", tuner.Committed)), young, true, false},
		"of another boot, later":        {encode(applied("another", tuner.Committed)), late, false, false},
		"an apply of it was undone":     {encode(applied("", tuner.Committed)), young, true, false},
		"below a trial of this boot":    {encode(covered), young, true, false},
		"of this boot, by the journal":  {encode(applied("boot", tuner.Committed)), young, false, false},
		"a trial of another boot":       {encode(applied("another", tuner.Trial)), young, false, false},
		"being undone in another boot":  {encode(applied("another", tuner.Undoing)), young, false, false},
		"rolled back, or never applied": {"", young, false, false},
		"damaged":                       {"{", young, false, true},
		"damaged, later":                {"{", late, false, false},
	} {
		t.Run(name, func(t *testing.T) {
			state := t.TempDir()
			must(t, os.MkdirAll(filepath.Join(state, tuner.Subdir), 0o700))
			if test.record != "" {
				must(t, os.WriteFile(filepath.Join(state, tuner.Subdir, "applied"), []byte(test.record), 0o600))
			}
			var told error
			ask := drift.Held(state, "boot", func() time.Duration { return test.at }, func(err error) { told = err })
			for _, unit := range []string{"set.service", "left.service", "dormant.service"} {
				err := ask(list(unit))
				if errors.Is(err, drift.ErrHeld) != test.held || (err != nil) != (test.held || test.damaged) || test.held && !strings.Contains(err.Error(), "profile database is committed") {
					t.Errorf("%s: %v", unit, err)
				}
			}
			if err := ask(list("web.service")); errors.Is(err, drift.ErrHeld) || (err != nil) != test.damaged {
				t.Errorf("another list: %v", err)
			}
			if (told != nil) != test.damaged {
				t.Errorf("told %v", told)
			}
		})
	}
}

// TestHeldSeesAnUndo checks that a rollback in progress releases the lists that it restores.
func TestHeldSeesAnUndo(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, tuner.Subdir, "applied")
	target := cgroupfile.Target("db.service", cgroup.KnobCPUs)
	text, err := json.Marshal(tuner.Applied{
		Boot: "another", Phase: tuner.Committed, Settings: []tuner.Setting{{Target: cgroupfile.UnitTarget("db.service", cgroup.KnobCPUs)}},
	})
	must(t, errors.Join(err, os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, text, 0o600)))
	ask := drift.Held(state, "boot", func() time.Duration { return time.Minute }, func(error) {})
	if err := ask(target); !errors.Is(err, drift.ErrHeld) {
		t.Errorf("committed: %v", err)
	}
	must(t, os.Chmod(file, os.ModeSticky|0o600))
	if err := ask(target); err != nil {
		t.Errorf("being undone: %v", err)
	}
}

// TestHeldFollowsTheRecord checks that, in the first minutes, a rollback releases the lists and a commit claims them.
func TestHeldFollowsTheRecord(t *testing.T) {
	state := t.TempDir()
	file := filepath.Join(state, tuner.Subdir, "applied")
	must(t, os.MkdirAll(filepath.Dir(file), 0o700))
	target := cgroupfile.Target("db.service", cgroup.KnobCPUs)
	ask := drift.Held(state, "boot", func() time.Duration { return time.Minute }, func(error) {})
	for _, units := range [][]string{nil, {"db.service"}, {"web.service"}, {"web.service", "db.service"}, nil} {
		must(t, os.RemoveAll(file))
		a, want := tuner.Applied{Boot: "another", Phase: tuner.Committed}, false
		for _, unit := range units {
			want = unit == "db.service"
			a.Settings = append(a.Settings, tuner.Setting{Target: cgroupfile.UnitTarget(unit, cgroup.KnobCPUs)})
		}
		if units != nil {
			text, err := json.Marshal(a)
			must(t, errors.Join(err, os.WriteFile(file, text, 0o600)))
		}
		for range 2 {
			if err := ask(target); errors.Is(err, drift.ErrHeld) != want || (err != nil) != want {
				t.Errorf("profile of %v: %v", units, err)
			}
		}
	}
}
