package agent

import (
	"errors"
	"path/filepath"
	"testing"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/drift"
	"github.com/berth-project/berth/internal/driver"
	"github.com/berth-project/berth/internal/driver/cgroupfile"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/tuner"
)

// A host profile that records a list while the agent does has it: the agent's one writer looks again.
func TestWriterLooksAtProfiles(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		m.joins()
		c := m.controls
		m.addGroup("a.scope", "max 100000")
		m.write("sys/fs/cgroup/a.scope/cpuset.cpus", "\n")
		profiles, err := journal.Open(filepath.Join(c.opts.Config.StateDir, tuner.Subdir), c.opts.BootID, driver.Values())
		if err != nil {
			t.Fatal(err)
		}
		a := newApplier(c.opts, c.host, c.journal, nil, nil)
		at := cgroupfile.Target("a.scope", cgroup.KnobCPUs)
		now := a.Read([]plan.Target{at})[0]
		change := plan.Change{From: now.Value, Setting: plan.Setting{Target: at, ID: now.ID, Value: "0", Owner: plan.OwnerPlace, Workload: "w", Why: "test"}}
		err = errors.Join(now.Err, profiles.Begin(journal.Entry{Target: at, ID: now.ID, Original: now.Value, Owner: tuner.Owner, Workload: "database"}), profiles.Close())
		if err != nil {
			t.Fatal(err)
		}
		r := a.Apply([]plan.Change{change})[0]
		if _, known := c.journal.Entry(at); known || !errors.Is(r.Err, drift.ErrHeld) || errors.Is(r.Err, apply.ErrJournal) || r.Wrote {
			t.Errorf("%+v; on record: %t", r, known)
		}
	})
}
