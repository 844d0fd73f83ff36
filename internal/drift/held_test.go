package drift_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/drift"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/tuner"
)

// TestHeldByTheRecord: where the journal of profiles cannot be read, the record of what is applied says which lists
// a profile has: none without a record, or where a boot ended it. A record that cannot be read either keeps all back.
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
		held, unknown bool // of the one that the profile names
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
			must(t, os.MkdirAll(file, 0o700)) // a directory reads as no file does
			if test.record != "" {
				must(t, os.WriteFile(filepath.Join(state, tuner.Subdir, "applied"), []byte(test.record), 0o600))
			}
			var told error
			ask := drift.Held(state, "boot", func(err error) { told = err })
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
