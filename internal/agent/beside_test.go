package agent

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/tune/drift"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// A host profile may record a list while the agent does. The agent's one writer then checks the profiles again and
// leaves the list to the profile.
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

// An agent that cannot read the journal of host profiles leaves the lists of the recorded profile alone. It writes all
// other lists, and logs the problem once.
func TestUnreadableProfiles(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		m.boot()
		m.end()
		m.joins()
		c := m.controls
		dir := filepath.Join(c.opts.Config.StateDir, tuner.Subdir)
		if err := os.MkdirAll(filepath.Join(dir, "journal"), 0o700); err != nil { // unreadable as a file
			t.Fatal(err)
		}
		m.commits(c.opts.BootID)
		m.wantsLists()
		for range 3 {
			report, _ := c.reconciler.Pass(c.opts.Clock())
			for _, s := range report.Groups {
				if held := strings.Contains(s.Reason, drift.ErrHeld.Error()+": database"); held != (s.Group == "a.scope") {
					t.Errorf("%+v", s)
				}
			}
		}
		if a, b := m.read("sys/fs/cgroup/a.scope/cpuset.cpus"), m.read("sys/fs/cgroup/b.scope/cpuset.cpus"); strings.TrimSpace(a) != "" || strings.TrimSpace(b) != "1" {
			t.Errorf("a has %q, b has %q", a, b)
		}
		if n := strings.Count(m.log.String(), "not all lists may be written"); n != 1 {
			t.Errorf("said %d times", n)
		}
	})
}

// The agent starts before berth-tune has set the committed profile again. It leaves a list of this profile alone for
// ten minutes after the boot, and writes all other lists at once.
func TestListsOfACommittedProfileAfterABoot(t *testing.T) {
	in(t, func(t *testing.T, m *machine) {
		uptime := time.Minute
		m.boottime = func() time.Duration { return uptime }
		m.boot()
		m.end()
		m.joins()
		c := m.controls
		m.commits("the boot before")
		m.wantsLists()
		for _, look := range []struct {
			at       time.Duration
			own      string
			isReason bool
		}{{time.Minute, "", true}, {10*time.Minute - time.Second, "", true}, {10 * time.Minute, "0", false}} {
			uptime = look.at
			time.Sleep(time.Minute) // within the bubble: past the retry delay
			report, _ := c.reconciler.Pass(c.opts.Clock())
			for _, s := range report.Groups {
				if awaits := strings.Contains(s.Reason, "profile database is committed"); awaits != (look.isReason && s.Group == "a.scope") {
					t.Errorf("%s after the boot: %+v", look.at, s)
				}
			}
			if a, b := m.read("sys/fs/cgroup/a.scope/cpuset.cpus"), m.read("sys/fs/cgroup/b.scope/cpuset.cpus"); strings.TrimSpace(a) != look.own || strings.TrimSpace(b) != "1" {
				t.Errorf("%s after the boot a has %q, b has %q", look.at, a, b)
			}
		}
	})
}

// commits records a committed profile of a boot that sets the CPUs of a.scope.
func (m *machine) commits(boot string) {
	m.t.Helper()
	dir := filepath.Join(m.controls.opts.Config.StateDir, tuner.Subdir)
	record := tuner.Applied{Boot: boot, Phase: tuner.Committed, Settings: []tuner.Setting{{Target: cgroupfile.UnitTarget("a.scope", cgroup.KnobCPUs)}}}
	record.Profile.Name = "database"
	text, err := json.Marshal(record)
	err = errors.Join(err, os.MkdirAll(dir, 0o700), os.WriteFile(filepath.Join(dir, "applied"), text, 0o600))
	if err != nil {
		m.t.Fatal(err)
	}
}

// wantsLists makes the reconciler desire CPU 0 for a.scope and CPU 1 for b.scope.
func (m *machine) wantsLists() {
	m.t.Helper()
	var settings []plan.Desired
	for cpu, name := range []string{"a.scope", "b.scope"} {
		m.addGroup(name, "max 100000")
		m.write("sys/fs/cgroup/"+name+"/cpuset.cpus", "\n")
		settings = append(settings, place.Desired{Group: name, CPUs: cpuset.Set{}.Add(cpu)}.Settings()...)
	}
	m.controls.reconciler.Want(settings)
}
