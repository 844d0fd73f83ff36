package journal

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/plan"
)

// bootArgs is a kind of target whose values survive a boot.
func bootArgs() plan.Kinds { return plan.Kinds{"bootargs": {Lifetime: plan.Persistent}} }

func bootArg(from, to plan.Value) plan.Change {
	return plan.Change{From: from, Setting: plan.Setting{
		Target: plan.Target{Driver: "bootargs", Object: "default", Knob: "isolcpus"}, ID: "default", Value: to, Owner: "isolate",
	}}
}

// TestLifetimes checks that an entry lives as long as its target: for this boot, or permanently.
func TestLifetimes(t *testing.T) {
	for name, spoil := range map[string]string{"clean": "", "spoiled by the power loss": "garbage\n\x00\x00\x00\nmore\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j, err := Open(dir, "another-boot", bootArgs())
			must(t, err)
			must(t, j.Begin(entry("a", "max 100000")))
			must(t, j.Record([]plan.Change{bootArg("none", "2-3")}, time.Now()))
			want, _ := j.Entry(bootArg("", "").Target)
			must(t, j.Close())
			file := filepath.Join(dir, fileName)
			data, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, append(data, spoil...), 0o600))

			s, err := Load(dir, bootArgs())
			must(t, err)
			if here, dropped := s.Of("this-boot"); len(here) != 1 || here[0].Target != want.Target || dropped != 1 {
				t.Errorf("of this boot: %v, %d dropped", here, dropped)
			}
			// The record contains the lifetime, also for a reader that does not know the kind.
			j, err = Open(dir, boot, nil)
			must(t, err)
			got, known := j.Entry(want.Target)
			if !known || got.Original != "none" || got.Intent != "2-3" || got.Boot != "another-boot" || got.Lifetime != plan.Persistent {
				t.Errorf("kept %+v, %v", got, known)
			}
			if n := len(j.Entries()); n != 1 || j.Recovery().Dropped != 1 {
				t.Errorf("%d entries, recovery %+v", n, j.Recovery())
			}
			if damaged := j.Recovery().Damage != nil && j.Recovery().Kept != ""; damaged != (spoil != "") {
				t.Errorf("recovery %+v", j.Recovery())
			}
			must(t, j.Begin(entry("b", "max 100000")))
			reread(t, j)
			must(t, j.Close())

			j, err = Open(dir, "third-boot", nil)
			must(t, err)
			if e := j.Entries(); len(e) != 1 || e[0].Target != want.Target || j.Recovery().Damage != nil {
				t.Errorf("a boot later: %v, recovery %+v", e, j.Recovery())
			}
			must(t, j.Forget(want.Target))
			must(t, j.Close())
			j = mustOpen(t, dir)
			if e := j.Entries(); len(e) != 0 {
				t.Errorf("forgotten, and there again: %v", e)
			}
		})
	}
}

// TestPersistentIntentsAreSynced checks that the intent of a persistent write is on disk before the write, so that a
// power loss does not lose it.
func TestPersistentIntentsAreSynced(t *testing.T) {
	j, err := Open(t.TempDir(), boot, bootArgs())
	must(t, err)
	defer j.Close()
	must(t, j.Begin(entry("a", "100000 100000")))
	must(t, j.Record([]plan.Change{bootArg("none", "2-3")}, time.Now()))
	syncs := 0
	flush := j.file.flush
	j.file.flush = func() error { syncs++; return flush() }
	for _, tt := range []struct {
		name string
		do   func() error
		want int
	}{
		{"an intent of this boot", func() error { return j.Intend(change("a", "100000 100000", "200000 100000")) }, 0},
		{"a persistent intent", func() error { return j.Intend(bootArg("2-3", "3")) }, 1},
		{"a persistent record", func() error { return j.Record([]plan.Change{bootArg("3", "2")}, time.Now()) }, 1},
	} {
		syncs = 0
		must(t, tt.do())
		if syncs != tt.want {
			t.Errorf("%s: synced %d times, want %d", tt.name, syncs, tt.want)
		}
	}
}

// TestOnePlaceOneEntry checks that a place which two drivers can write has one entry.
func TestOnePlaceOneEntry(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	e := entry("a.scope", "0-3")
	e.Target = plan.Target{Driver: "systemd", Object: "a.scope", Knob: "cpuset.cpus"}
	must(t, j.Begin(e))
	c := plan.Change{Setting: plan.Setting{Target: plan.Target{Driver: "cgroup", Object: "a.scope", Knob: "cpuset.cpus"}, ID: e.ID, Value: "1"}, From: "0-3"}
	must(t, j.Intend(c))
	got, known := j.Entry(c.Target)
	if !known || got.Target != e.Target || got.Intent != "1" || len(j.Entries()) != 1 {
		t.Errorf("%+v, %v", got, known)
	}
	reread(t, j)
}

// TestRecurringValues checks a target whose value another program applies to its successor. From the next write on, the
// entry belongs to the successor. If the successor has another value then, it is a different thing with its own
// original.
func TestRecurringValues(t *testing.T) {
	kinds := plan.Kinds{"unit": {Recurs: func(plan.Target) bool { return true }}}
	at := func(id plan.Identity, from, to plan.Value) plan.Change {
		return plan.Change{From: from, Setting: plan.Setting{
			Target: plan.Target{Driver: "unit", Object: "a", Knob: "cpus"}, ID: id, Value: to, Owner: "place",
		}}
	}
	j, err := Open(t.TempDir(), boot, kinds)
	must(t, err)
	for _, c := range []struct {
		change   plan.Change
		original plan.Value
	}{
		{at("1", "inherit", "2-3"), "inherit"},
		{at("2", "2-3", "1-3"), "inherit"},
		{at("3", "0", "1-3"), "0"},
	} {
		must(t, j.Record([]plan.Change{c.change}, time.Now()))
		if e, _ := j.Entry(c.change.Target); e.Original != c.original || e.ID != c.change.ID || e.Intent != c.change.Value {
			t.Errorf("after %s of %s: %+v", c.change, c.change.ID, e)
		}
		s, err := Load(j.dir, kinds)
		must(t, err)
		if d := cmp.Diff(j.Entries(), s.Entries); d != "" {
			t.Errorf("read back (-want +got):\n%s", d)
		}
	}
	must(t, j.Close())
}
