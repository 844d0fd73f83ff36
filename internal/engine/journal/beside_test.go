package journal

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
)

// TestBeside checks that a reader of another Berth component's journal gets the last entry for a place, even if that
// component names the place through another driver.
func TestBeside(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "tune")
	b := NewBeside(dir, boot, nil)
	otherwise := target("a")
	otherwise.Driver = "systemd"
	has := func(when string, want bool) {
		t.Helper()
		e, known, err := b.Entry(otherwise)
		if err != nil || known != want || known && e.Workload != "redis" {
			t.Errorf("%s: %+v, %v, %v", when, e, known, err)
		}
	}
	has("no directory", false)
	j := mustOpen(t, dir)
	has("nothing on record", false)
	if err := j.Begin(entry("b", "1")); err != nil {
		t.Fatal(err)
	}
	has("another place", false)
	if err := j.Begin(entry("a", "1")); err != nil {
		t.Fatal(err)
	}
	has("on record", true)
	if err := j.Forget(target("a")); err != nil {
		t.Fatal(err)
	}
	has("forgotten", false)
	if err := errors.Join(j.Begin(entry("a", "1")), j.Close()); err != nil {
		t.Fatal(err)
	}
	has("on record again", true)
	if _, known, err := NewBeside(dir, "another boot", nil).Entry(otherwise); known || err != nil {
		t.Errorf("in another boot: %v, %v", known, err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	has("the directory is gone", false)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(filepath.Join(dir, fileName), 0o700)); err != nil {
		t.Fatal(err)
	}
	if _, known, err := b.Entry(otherwise); known || err == nil {
		t.Errorf("a journal that cannot be read: %v, %v", known, err)
	}
}
