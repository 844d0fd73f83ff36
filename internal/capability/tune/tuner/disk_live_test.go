package tuner_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/test/disk"
)

// TestFullDisk: without room for the deadline and the originals, nothing is written. A commit that cannot be recorded
// has no effect, and the rollback needs no room.
func TestFullDisk(t *testing.T) {
	h := newHost(t)
	small := disk.Small(t)
	h.state = filepath.Join(small, "tune")
	before := h.files()
	h.do(func(u *tuner.Tuner) {
		disk.Fill(t, small)
		if r, err := u.Apply(order(confirm, some())); !errors.Is(err, syscall.ENOSPC) || r.Writes != 0 {
			t.Errorf("%+v, %v", r, err)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Fatal(d)
	}
	must(t, os.Remove(filepath.Join(small, "ballast")))
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(confirm, some())); must(t, err) })
	h.do(func(u *tuner.Tuner) {
		disk.Fill(t, small)
		if err := u.Commit(); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("commit: %v", err)
		}
	})
	if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Trial {
		t.Errorf("%+v, %v", a, err)
	}
	h.boottime += confirm
	h.do(func(u *tuner.Tuner) {
		for file, o := range outcomes(u.Rollback()) {
			if o != apply.OutcomeRestored {
				t.Errorf("%s: %s", file, o)
			}
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
	if _, is, _ := tuner.Load(h.state); is {
		t.Error("a record is left")
	}
}

// TestRollbackOnAFullDisk: a rollback that leaves another program's value stays on record as being undone. That record
// needs no disk space, and it forgets the profile that was committed in an earlier boot.
func TestRollbackOnAFullDisk(t *testing.T) {
	h := newHost(t)
	small := disk.Small(t)
	h.state = filepath.Join(small, "tune")
	h.do(func(u *tuner.Tuner) { _, err := u.Apply(order(0, map[string]string{autogroup: "0"})); must(t, err) })
	h.write(autogroup, "1")
	h.boot = "another"
	before, _ := h.applies(confirm, "", "")
	if a, _, err := tuner.Load(h.state); a.Former == nil || err != nil {
		t.Fatalf("on record: %+v, %v", a, err)
	}
	h.write(slice, "7") // another program's value
	disk.Fill(t, small)
	for range 2 {
		h.do(func(u *tuner.Tuner) { u.Rollback() })
		if a, is, err := tuner.Load(h.state); !is || err != nil || a.Phase != tuner.Undoing || a.Former != nil {
			t.Errorf("on record: %s, remembers %v, %v", a.Phase, a.Former, err)
		}
	}
	must(t, os.Remove(filepath.Join(small, "ballast")))
	h.do(func(u *tuner.Tuner) {
		if err := u.Commit(); !errors.Is(err, tuner.ErrLeft) {
			t.Errorf("commit: %v, want %v", err, tuner.ErrLeft)
		}
	})
	h.write(slice, before[slice])
	h.do(func(u *tuner.Tuner) {
		if a, is := u.Applied(); is {
			t.Errorf("on record still: %+v", a)
		}
	})
	if d := cmp.Diff(before, h.files()); d != "" {
		t.Error(d)
	}
}
