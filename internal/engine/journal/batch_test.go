package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/plan"
)

// recorded returns a change that another writer is about to make.
func recorded(group string, from, to plan.Value) plan.Change {
	return plan.Change{
		Setting: plan.Setting{
			Target: plan.Target{Driver: "systemd", Object: group, Knob: "cpuset.cpus"}, ID: "30:7",
			Value: to, Owner: plan.OwnerPool, Workload: "redis", Why: "redis has 2-3",
		},
		From: from,
	}
}

func TestRecord(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	since := time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
	must(t, j.Record(nil, since))
	must(t, j.Record([]plan.Change{recorded("a", "inherit", "0-1"), recorded("b", "0-7", "0-1")}, since))
	must(t, j.Record([]plan.Change{recorded("a", "0-1", "0"), recorded("c", "0-7", "2")}, since.Add(time.Hour)))
	reread(t, j)
	a := Entry{
		Target: plan.Target{Driver: "systemd", Object: "a", Knob: "cpuset.cpus"}, ID: "30:7", Boot: boot,
		Original: "inherit", Intent: "0", Previous: "0-1", Owned: true, Owner: plan.OwnerPool, Workload: "redis",
		Why: "redis has 2-3", Since: since, Writes: 2,
	}
	if d := cmp.Diff(a, j.Entries()[0]); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if n := len(j.Entries()); n != 3 {
		t.Errorf("%d entries, want 3", n)
	}

	again := recorded("a", "0-7", "5") // the container was restarted
	again.ID = "30:8"
	must(t, j.Record([]plan.Change{again}, since))
	reread(t, j)
	if e := j.Entries()[0]; e.Original != "0-7" || e.ID != "30:8" || e.Writes != 1 {
		t.Errorf("a group made again has %+v", e)
	}
	must(t, j.Close())
	reopened := mustOpen(t, dir)
	if d := cmp.Diff(j.Entries(), reopened.Entries()); d != "" {
		t.Errorf("after opening again (-before +after):\n%s", d)
	}
}

// TestRecordRefused checks that a batch is recorded completely or not at all.
func TestRecordRefused(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	must(t, j.Record([]plan.Change{recorded("a", "inherit", "0-1")}, time.Time{}))
	before := j.Entries()
	file := filepath.Join(j.dir, fileName)
	content, err := os.ReadFile(file)
	must(t, err)
	unchanged := func(what string) {
		t.Helper()
		now, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Equal(content, now) {
			t.Errorf("%s: the file changed", what)
		}
		if d := cmp.Diff(before, j.Entries()); d != "" {
			t.Errorf("%s (-before +after):\n%s", what, d)
		}
		reread(t, j)
	}
	for what, bad := range map[string]plan.Change{
		"no value":    recorded("c", "0", ""),
		"no original": recorded("c", "", "0"),
		"no group":    recorded("", "0", "1"),
	} {
		if err := j.Record([]plan.Change{recorded("b", "0", "1"), bad}, time.Time{}); !errors.Is(err, ErrBadEntry) {
			t.Errorf("%s: %v, want ErrBadEntry", what, err)
		}
		unchanged(what)
	}
	whole := j.file.write
	j.file.write = func(data []byte, at int64) (int, error) {
		n, _ := whole(data[:len(data)/2], at)
		return n, unix.ENOSPC
	}
	if err := j.Record([]plan.Change{recorded("b", "0", "1"), recorded("c", "0", "1")}, time.Time{}); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("a full disk: %v", err)
	}
	unchanged("a full disk")
}

// TestOwnerChanges checks that the last writer of a target owns it, also after the file is read again. Restoring the
// original is no owner's setting.
func TestOwnerChanges(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	pool := recorded("a", "0-7", "0-1")
	place := recorded("a", "0-1", "2-3")
	place.Owner, place.Workload, place.Why = plan.OwnerPlace, "nginx", "nginx has 2-3"
	owned := func(by plan.Change) {
		t.Helper()
		reread(t, j)
		e := j.Entries()[0]
		if e.Owner != by.Owner || e.Workload != by.Workload || e.Why != by.Why || e.Original != "0-7" {
			t.Errorf("entry %+v, want %+v", e, by.Setting)
		}
	}
	must(t, j.Record([]plan.Change{pool}, time.Now()))
	owned(pool)
	must(t, j.Record([]plan.Change{place}, time.Now()))
	owned(place)
	pool.From = "2-3"
	must(t, j.Intend(pool))
	owned(pool)
	back := place
	back.From, back.Value, back.Why = "0-1", "0-7", "put the original back"
	must(t, j.Intend(back))
	owned(pool)
}
