package journal

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/test/disk"
)

func TestFullDisk(t *testing.T) {
	dir := disk.Small(t)
	j := mustOpen(t, dir)
	must(t, j.Begin(entry("a", "100000 100000")))
	must(t, j.Begin(entry("b", "100000 100000")))
	must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
	disk.Fill(t, dir)

	refused := 0
	for range 1000 { // the reserved space may accept a few
		err := j.Intend(change("b", "100000 100000", "300000 100000"))
		if err != nil && !errors.Is(err, unix.ENOSPC) {
			t.Fatal(err)
		}
		if err != nil {
			refused++
		}
	}
	if refused == 0 {
		t.Fatal("1000 intents fit on a full disk")
	}
	if err := j.Begin(entry("c", "max 100000")); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Begin: %v, want ENOSPC", err)
	}
	if err := j.Rebase(target("a"), plan.OwnerBurst, "120000 100000"); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Rebase: %v, want ENOSPC", err)
	}
	reread(t, j)
	must(t, j.Close())

	// The next writer has no room to rewrite the file, but can still roll back.
	j = mustOpen(t, dir)
	if !errors.Is(j.Recovery().NoRoom, unix.ENOSPC) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	if len(j.Entries()) != 2 {
		t.Fatalf("entries %v", j.Entries())
	}
	for _, e := range j.Entries() {
		must(t, j.Intend(change(e.Target.Object, "300000 100000", "100000 100000")))
		reread(t, j)
		must(t, j.Forget(e.Target))
		reread(t, j)
	}
}

func TestReserveCoversTheWayBack(t *testing.T) {
	dir := disk.Small(t)
	j := mustOpen(t, dir)
	for _, group := range []string{"a", "b", "c", "d", "e"} {
		must(t, j.Begin(entry(group, "100000 100000")))
	}
	disk.Fill(t, dir)
	for j.Intend(change("a", "100000 100000", "300000 100000")) == nil { //nolint:revive // uses up what was reserved in advance
	}
	for _, e := range j.Entries() {
		must(t, j.Intend(change(e.Target.Object, "300000 100000", "100000 100000")))
		must(t, j.Forget(e.Target))
	}
	reread(t, j)
}

func TestNoRoomForANewJournal(t *testing.T) {
	dir := disk.Small(t)
	disk.Fill(t, dir)
	if _, err := Open(filepath.Join(dir), boot, nil); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("Open: %v, want ENOSPC", err)
	}
}

func TestFullDiskWithAnotherBoot(t *testing.T) {
	dir := disk.Small(t)
	j, err := Open(dir, "another-boot", nil)
	must(t, err)
	must(t, j.Begin(entry("a", "100000 100000")))
	must(t, j.Close())
	disk.Fill(t, dir)
	j = mustOpen(t, dir)
	if len(j.Entries()) != 0 || j.Recovery().Dropped != 1 {
		t.Errorf("entries %v, recovery %+v", j.Entries(), j.Recovery())
	}
	s, err := Load(dir, nil)
	must(t, err)
	if s.Boot != boot || s.Damage != nil {
		t.Errorf("boot %q, damage %v", s.Boot, s.Damage)
	}
}

// TestShortWrite checks that an incomplete write leaves no partial line.
func TestShortWrite(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	must(t, j.Begin(entry("a", "100000 100000")))
	before, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	want := j.Entries()
	whole := j.file.write
	j.file.write = func(data []byte, at int64) (int, error) {
		n, err := whole(data[:len(data)/2], at)
		return n, errors.Join(err, unix.ENOSPC)
	}
	for name, do := range map[string]func() error{
		"begin":  func() error { return j.Begin(entry("b", "max 100000")) },
		"intend": func() error { return j.Intend(change("a", "100000 100000", "300000 100000")) },
		"rebase": func() error { return j.Rebase(target("a"), plan.OwnerBurst, "200000 100000") },
	} {
		if err := do(); !errors.Is(err, unix.ENOSPC) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if d := cmp.Diff(want, j.Entries()); d != "" {
		t.Errorf("a failed record changed the entries:\n%s", d)
	}
	after, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	if !bytes.Equal(before, after) {
		t.Errorf("file grew from %d to %d bytes", len(before), len(after))
	}
	j.file.write = whole
	must(t, j.Begin(entry("b", "max 100000")))
	reread(t, j)
}

// TestNoReservation checks that the journal works on a file system that cannot reserve space.
func TestNoReservation(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	asked := 0
	j.file.reserved = 0
	j.file.allocate = func(int64) error { asked++; return unix.EOPNOTSUPP }
	must(t, j.Begin(entry("a", "100000 100000")))
	must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
	if asked == 0 {
		t.Error("no space was asked for")
	}
	reread(t, j)
}

// TestFailedRewrite checks that the old file stays in use after a failed rewrite.
func TestFailedRewrite(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	must(t, j.Begin(entry("a", "100000 100000")))
	must(t, os.Mkdir(filepath.Join(dir, fileName+".new"), 0o700))
	j.rewrite = 0
	must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
	if j.rewrite != 0 {
		t.Error("an intent rewrote the file")
	}
	if err := j.Tidy(); !errors.Is(err, unix.EISDIR) {
		t.Errorf("Tidy: %v, want EISDIR", err)
	}
	if j.rewrite <= j.file.size {
		t.Errorf("the next rewrite is due at %d, the file has %d", j.rewrite, j.file.size)
	}
	reread(t, j)
}

// TestFullDiskWithDamage checks that a damaged journal loses nothing when a full disk prevents its replacement. There
// is no copy until there is room, and then the copy contains everything.
func TestFullDiskWithDamage(t *testing.T) {
	for name, tail := range map[string]string{
		"whole lines": "garbage\n\x00\x00\n", "a part of a line": "garbage\nmore\n{\"crc\":\"12", "all of a line but its end": "garbage\n",
	} {
		t.Run(name, func(t *testing.T) {
			dir := disk.Small(t)
			j := mustOpen(t, dir)
			must(t, j.Begin(entry("a", "100000 100000")))
			must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
			must(t, j.Close())
			file := filepath.Join(dir, fileName)
			content, err := os.ReadFile(file)
			must(t, err)
			content = append(content, tail...)
			if name == "all of a line but its end" {
				line, err := encode(targetRecord(kindForget, target("a")))
				must(t, err)
				content = append(content, line[:len(line)-1]...)
			}
			must(t, os.WriteFile(file, content, 0o600))
			disk.Fill(t, dir)

			j, err = Salvage(dir, boot, nil)
			must(t, err)
			t.Cleanup(func() { must(t, j.Close()) })
			r := j.Recovery()
			if r.Damage == nil || !errors.Is(r.NoRoom, unix.ENOSPC) || r.Kept != "" {
				t.Errorf("recovery %+v", r)
			}
			if notes := strings.Join(r.Notes(), "\n"); !strings.Contains(notes, "stays in use") {
				t.Errorf("notes %q", notes)
			}
			must(t, j.Intend(change("a", "300000 100000", "100000 100000")))
			s, err := Load(dir, nil)
			must(t, err)
			if d := cmp.Diff(j.Entries(), s.Entries); d != "" {
				t.Errorf("memory and file differ (-memory +file):\n%s", d)
			}
			now, err := os.ReadFile(file)
			must(t, err)
			if !bytes.HasPrefix(now, content) {
				t.Errorf("the file was\n%q, and is\n%q", content, now)
			}

			must(t, os.Remove(filepath.Join(dir, "ballast")))
			j.rewrite = 0
			must(t, j.Tidy())
			reread(t, j)
			kept, err := os.ReadFile(file + ".damaged-1")
			must(t, err)
			if !bytes.Equal(kept, now) || j.Recovery().Kept != file+".damaged-1" {
				t.Errorf("kept as %q:\n%q, want\n%q", j.Recovery().Kept, kept, now)
			}
		})
	}
}

// TestSalvageLeavesAWholeFileAlone checks that a rollback of an intact file needs nothing from an unresponsive disk,
// and can use the space that was reserved for it before.
func TestSalvageLeavesAWholeFileAlone(t *testing.T) {
	dir := disk.Small(t)
	j := mustOpen(t, dir)
	for _, group := range []string{"a", "b", "c"} {
		must(t, j.Begin(entry(group, "100000 100000")))
	}
	must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
	must(t, j.Close())
	disk.Fill(t, dir)
	stat := func() (s unix.Stat_t) {
		must(t, unix.Stat(filepath.Join(dir, fileName), &s))
		return s
	}
	before := stat()
	j, err := Salvage(dir, boot, nil)
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	if now := stat(); now.Ctim != before.Ctim || now.Blocks != before.Blocks {
		t.Errorf("it was changed: %+v, was %+v", now, before)
	}
	for _, e := range j.Entries() {
		must(t, j.Intend(change(e.Target.Object, "300000 100000", "100000 100000")))
		must(t, j.Forget(e.Target))
	}
	reread(t, j)
}
