package journal

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/plan"
)

const boot = "11111111-2222-3333-4444-555555555555"

func target(group string) plan.Target {
	return plan.Target{Driver: "cgroup", Object: group, Knob: "cpu.max"}
}

func entry(group string, original plan.Value) Entry {
	return Entry{
		Target: target(group), ID: "30:1152921504606846976", Original: original,
		Owner: plan.OwnerBurst, Workload: "redis", Why: "credit 3.5 CPU-seconds",
		Since: time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC),
	}
}

func change(group string, from, to plan.Value) plan.Change {
	return plan.Change{Setting: plan.Setting{Target: target(group), Value: to}, From: from}
}

func mustOpen(t *testing.T, dir string) *Journal {
	t.Helper()
	j, err := Open(dir, boot, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := j.Close(); err != nil {
			t.Error(err)
		}
	})
	return j
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// reread checks that the file has the same content as the journal in memory.
func reread(t *testing.T, j *Journal) {
	t.Helper()
	s, err := Load(j.dir, nil)
	must(t, err)
	if s.Damage != nil || s.Torn {
		t.Fatalf("damage %v, torn %v", s.Damage, s.Torn)
	}
	if d := cmp.Diff(j.Entries(), s.Entries); d != "" {
		t.Fatalf("memory and file differ (-memory +file):\n%s", d)
	}
}

func TestLifeOfAnEntry(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "lib", "berth")
	j := mustOpen(t, dir)
	info, err := os.Stat(dir)
	must(t, err)
	if info.Mode().Perm() != 0o700 {
		t.Errorf("state directory has mode %v", info.Mode().Perm())
	}
	want := entry("a", "100000 100000")
	must(t, j.Begin(want))
	want.Boot = boot
	check := func() {
		t.Helper()
		got, _ := j.Entry(want.Target)
		if d := cmp.Diff(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		reread(t, j)
	}
	check()
	must(t, j.Intend(change("a", "100000 100000", "300000 100000")))
	want.Intent, want.Previous, want.Writes = "300000 100000", "100000 100000", 1
	check()
	must(t, j.Intend(change("a", "300000 100000", "200000 100000")))
	want.Intent, want.Previous, want.Writes, want.Owned = "200000 100000", "300000 100000", 2, true
	check()
	// Another writer wrote 777, and Berth writes its own value again. 777 is not Berth's.
	must(t, j.Intend(change("a", "77700 100000", "200000 100000")))
	want.Intent, want.Previous, want.Writes = "200000 100000", "300000 100000", 3
	check()
	must(t, j.Rebase(want.Target, plan.OwnerBurst, "150000 100000"))
	want.Original = "150000 100000"
	check()
	must(t, j.Forget(want.Target))
	if _, known := j.Entry(want.Target); known {
		t.Error("forgotten entry is known")
	}
	must(t, j.Forget(want.Target))
	reread(t, j)
}

func TestRefusals(t *testing.T) {
	j := mustOpen(t, t.TempDir())
	must(t, j.Begin(entry("a", "max 100000")))
	tests := []struct {
		name string
		do   func() error
		want error
	}{
		{"begin twice", func() error { return j.Begin(entry("a", "1000 100000")) }, ErrExists},
		{"begin without a value", func() error { return j.Begin(entry("b", "")) }, ErrBadEntry},
		{"begin without a group", func() error { return j.Begin(entry("", "max 1000")) }, ErrBadEntry},
		{"begin with a name that JSON would change", func() error { return j.Begin(entry("a\xff", "max 1000")) }, ErrBadEntry},
		{"intend without begin", func() error { return j.Intend(change("b", "max 1000", "1000 1000")) }, ErrNoEntry},
		{"intend nothing", func() error { return j.Intend(change("a", "max 1000", "")) }, ErrBadEntry},
		{"rebase without begin", func() error { return j.Rebase(target("b"), plan.OwnerBurst, "max 1000") }, ErrNoEntry},
		{"rebase for another owner", func() error { return j.Rebase(target("a"), plan.OwnerPlace, "max 1000") }, ErrNotOwner},
		{"rebase to nothing", func() error { return j.Rebase(target("a"), plan.OwnerBurst, "") }, ErrBadEntry},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if err := tt.do(); !errors.Is(err, tt.want) {
				t.Errorf("error %v, want %v", err, tt.want)
			}
		})
	}
	reread(t, j)
	must(t, j.Close())
	if err := j.Begin(entry("c", "max 1000")); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	if _, err := Open(t.TempDir(), "", nil); !errors.Is(err, ErrBadEntry) {
		t.Errorf("without a boot id: %v", err)
	}
}

func TestEntriesSurviveReopen(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	for _, group := range []string{"b", "a", "c"} {
		must(t, j.Begin(entry(group, "max 100000")))
		must(t, j.Intend(change(group, "max 100000", "5000 100000")))
	}
	must(t, j.Forget(target("c")))
	want := j.Entries()
	must(t, j.Close())
	before, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)

	j = mustOpen(t, dir)
	if d := cmp.Diff(want, j.Entries()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if j.Recovery() != (Recovery{}) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	after, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	if len(after) >= len(before) || bytes.Contains(after, []byte(kindForget)) {
		t.Errorf("not rewritten on open: %d bytes, then %d", len(before), len(after))
	}
	reread(t, j)
}

func TestOtherBoot(t *testing.T) {
	for name, spoil := range map[string]string{"clean": "", "spoiled by the power loss": "garbage\n\x00\x00\x00\nmore\n"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			j, err := Open(dir, "another-boot", nil)
			must(t, err)
			must(t, j.Begin(entry("a", "max 100000")))
			must(t, j.Close())
			file := filepath.Join(dir, fileName)
			data, err := os.ReadFile(file)
			must(t, err)
			must(t, os.WriteFile(file, append(data, spoil...), 0o600))

			s, err := Load(dir, nil)
			must(t, err)
			if here, dropped := s.Of("this-boot"); len(here) != 0 || dropped != 1 {
				t.Errorf("%d entries of this boot, %d of another, want 0 and 1", len(here), dropped)
			}
			if there, dropped := s.Of("another-boot"); len(there) != 1 || dropped != 0 {
				t.Errorf("%d entries of that boot, %d of another, want 1 and 0", len(there), dropped)
			}
			if s.Boot != "another-boot" || len(s.Entries) != 1 || s.Entries[0].Boot != "another-boot" {
				t.Errorf("Load: boot %q, entries %v", s.Boot, s.Entries)
			}
			j = mustOpen(t, dir)
			if len(j.Entries()) != 0 || j.Recovery().Dropped != 1 {
				t.Errorf("entries %v, recovery %+v", j.Entries(), j.Recovery())
			}
			reread(t, j)
		})
	}
}

// filled returns the bytes of a journal with all kinds of records.
func filled(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	j := mustOpen(t, dir)
	must(t, j.Begin(entry("kubepods.slice/pod-1", "100000 100000")))
	must(t, j.Intend(change("kubepods.slice/pod-1", "100000 100000", "300000 100000")))
	must(t, j.Begin(entry(`system.slice/we<i>rd-\x2d"`, "max 100000")))
	must(t, j.Rebase(target("kubepods.slice/pod-1"), plan.OwnerBurst, "120000 100000"))
	must(t, j.Forget(target(`system.slice/we<i>rd-\x2d"`)))
	must(t, j.Begin(entry("b", "40000 50000")))
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	return data
}

// TestTruncatedAnywhere checks that a journal truncated anywhere has the content of its complete lines, and that Open
// accepts it.
func TestTruncatedAnywhere(t *testing.T) {
	data := filled(t)
	for size := range len(data) {
		whole := bytes.LastIndexByte(data[:size], '\n') + 1
		want, err := replay("journal", data[:whole], nil)
		must(t, err)
		got, err := replay("journal", data[:size], nil)
		must(t, err)
		if got.Damage != nil || got.Torn != (size != whole) {
			t.Fatalf("cut at %d: damage %v, torn %v", size, got.Damage, got.Torn)
		}
		if d := cmp.Diff(want.Entries, got.Entries); d != "" {
			t.Fatalf("cut at %d (-want +got):\n%s", size, d)
		}
	}
	for _, size := range []int{0, 1, len(data) / 2, len(data) - 1} {
		dir := t.TempDir()
		must(t, os.WriteFile(filepath.Join(dir, fileName), data[:size], 0o600))
		want, err := Load(dir, nil)
		must(t, err)
		j := mustOpen(t, dir)
		if j.Recovery().Torn != want.Torn {
			t.Errorf("cut at %d: recovery %+v", size, j.Recovery())
		}
		if d := cmp.Diff(want.Entries, j.Entries()); d != "" {
			t.Errorf("cut at %d (-want +got):\n%s", size, d)
		}
		must(t, j.Begin(entry("later", "max 100000")))
		reread(t, j)
	}
}

// TestFlippedAnywhere checks that a single wrong byte anywhere is always noticed.
func TestFlippedAnywhere(t *testing.T) {
	data := filled(t)
	for i := range data {
		for _, flip := range []byte{0x01, 0x20, 0xff} {
			bad := bytes.Clone(data)
			bad[i] ^= flip
			s, err := replay("journal", bad, nil)
			if err == nil && s.Damage == nil && !s.Torn {
				t.Fatalf("byte %d changed from %q to %q: not noticed", i, data[i], bad[i])
			}
		}
	}
}

func TestDamage(t *testing.T) {
	lines := strings.SplitAfter(string(filled(t)), "\n")
	tests := []struct {
		name  string
		lines []string
		line  int
	}{
		{"garbage at the start", append([]string{"x\n"}, lines...), 1},
		{"garbage in the middle", append(append(append([]string{}, lines[:2]...), "x\n"), lines[2:]...), 3},
		{"no original", append(append([]string{}, lines[:1]...), lines[2:]...), 2},
		{"empty line", append(append(append([]string{}, lines[:1]...), "\n"), lines[1:]...), 2},
		{"second header", append(append(append([]string{}, lines[:2]...), lines[0]), lines[2:]...), 3},
		{"second header at the end", append(append([]string{}, lines[:3]...), lines[0]), 4},
		{"no original at the end", []string{lines[0], lines[3], lines[2]}, 3},
		{"no header", lines[1:], 1},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			file := filepath.Join(dir, fileName)
			content := strings.Join(tt.lines, "")
			must(t, os.WriteFile(file, []byte(content), 0o600))
			_, err := Open(dir, boot, nil)
			var damage *DamageError
			if !errors.As(err, &damage) || !errors.Is(err, ErrDamaged) {
				t.Fatalf("Open: %v", err)
			}
			if damage.File != file || damage.Line != tt.line {
				t.Errorf("%v, want line %d of %s", err, tt.line, file)
			}
			if _, alive, err := Holder(dir); alive || err != nil {
				t.Errorf("the lock is held after a failed Open: %v, %v", alive, err)
			}
			s, err := Load(dir, nil)
			must(t, err)
			salvaged, err := Salvage(dir, boot, nil)
			must(t, err)
			defer salvaged.Close()
			if d := cmp.Diff(s.Entries, salvaged.Entries()); d != "" || len(s.Entries) == 0 {
				t.Errorf("%d entries; (-loaded +salvaged):\n%s", len(s.Entries), d)
			}
			reread(t, salvaged)
			kept, err := os.ReadFile(salvaged.Recovery().Kept)
			must(t, err)
			if string(kept) != content {
				t.Error("the damaged file was not kept as it was")
			}
		})
	}
}

// TestNothingButGarbage checks that a complete line of garbage does not count as torn, even if it is the only line.
func TestNothingButGarbage(t *testing.T) {
	for content, torn := range map[string]bool{"garbage\n": false, "\n": false, "garbage": true} {
		dir := t.TempDir()
		file := filepath.Join(dir, fileName)
		must(t, os.WriteFile(file, []byte(content), 0o600))
		s, err := Load(dir, nil)
		must(t, err)
		if s.Torn != torn || errors.Is(s.Damage, ErrDamaged) == torn {
			t.Errorf("%q: torn %v, damage %v", content, s.Torn, s.Damage)
		}
		j, err := Salvage(dir, boot, nil)
		must(t, err)
		if notes := strings.Join(j.Recovery().Notes(), "\n"); torn != strings.Contains(notes, "cut off") ||
			torn == strings.Contains(notes, file+".damaged-1") {
			t.Errorf("%q: notes %q", content, notes)
		}
		must(t, j.Close())
		if kept, err := os.ReadFile(file + ".damaged-1"); !torn && string(kept) != content {
			t.Errorf("%q: kept %q, %v", content, kept, err)
		}
	}
	// The last of several lines may have reached the disk out of order.
	data := append(filled(t), "garbage\n"...)
	s, err := replay("journal", data, nil)
	must(t, err)
	if !s.Torn || s.Damage != nil {
		t.Errorf("after good lines: torn %v, damage %v", s.Torn, s.Damage)
	}
}

func TestNotes(t *testing.T) {
	if notes := (Recovery{}).Notes(); len(notes) != 0 {
		t.Errorf("nothing to report: %q", notes)
	}
	r := Recovery{Torn: true, Dropped: 3, Damage: &DamageError{File: "/f", Line: 7}, Kept: "/k", NoRoom: errors.New("disk full")}
	notes := strings.Join(r.Notes(), "\n")
	for _, want := range []string{"cut off", "reboot: 3", "/f line 7", "/k", "disk full"} {
		if !strings.Contains(notes, want) {
			t.Errorf("%q misses %q", notes, want)
		}
	}
}

func TestUnreadable(t *testing.T) {
	t.Run("a directory in its place", func(t *testing.T) {
		dir := t.TempDir()
		must(t, os.Mkdir(filepath.Join(dir, fileName), 0o700))
		_, err := Open(dir, boot, nil)
		if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, fileName)) {
			t.Errorf("error %v does not name the file", err)
		}
	})
	t.Run("state directory is a file", func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "state")
		must(t, os.WriteFile(dir, nil, 0o600))
		if _, err := Open(dir, boot, nil); err == nil || !strings.Contains(err.Error(), dir) {
			t.Errorf("error %v does not name the directory", err)
		}
	})
	t.Run("another version", func(t *testing.T) {
		dir := t.TempDir()
		line, err := encode(record{Kind: kindHeader, Version: version + 1, Boot: boot})
		must(t, err)
		must(t, os.WriteFile(filepath.Join(dir, fileName), line, 0o600))
		if _, err := Open(dir, boot, nil); !errors.Is(err, ErrVersion) {
			t.Errorf("Open: %v", err)
		}
		if _, err := Salvage(dir, boot, nil); !errors.Is(err, ErrVersion) {
			t.Errorf("Salvage: %v", err)
		}
	})
	t.Run("missing", func(t *testing.T) {
		s, err := Load(filepath.Join(t.TempDir(), "nothing"), nil)
		if err != nil || len(s.Entries) != 0 || s.Damage != nil {
			t.Errorf("Load: %+v, %v", s, err)
		}
	})
}

func TestRewrite(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	must(t, j.Begin(entry("a", "100000 100000")))
	values := []plan.Value{"200000 100000", "300000 100000"}
	largest := int64(0)
	for i := range 20_000 {
		must(t, j.Intend(change("a", values[i%2], values[(i+1)%2])))
		largest = max(largest, j.file.size)
		file, due := j.file, j.file.size >= j.rewrite
		must(t, j.Tidy())
		if rewritten := j.file != file; rewritten != due {
			t.Fatalf("at %d bytes: rewritten %v", file.size, rewritten)
		}
	}
	if largest < growth || largest > growth+4096 {
		t.Errorf("largest size %d, want just above %d", largest, growth)
	}
	got, _ := j.Entry(target("a"))
	if got.Writes != 20_000 || got.Intent != values[0] || got.Previous != values[1] {
		t.Errorf("entry %+v", got)
	}
	reread(t, j)
	if _, err := os.Stat(filepath.Join(dir, fileName+".new")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("temporary file: %v", err)
	}
}

// TestOwned checks that the value before the last intent counts as the owner's own only if that owner had written it.
func TestOwned(t *testing.T) {
	by := func(owner plan.Owner, from, to plan.Value) plan.Change {
		c := change("a", from, to)
		c.Owner = owner
		return c
	}
	const place, pool = plan.OwnerPlace, plan.OwnerPool
	for name, test := range map[string]struct {
		changes []plan.Change
		want    bool
	}{
		"the first one":                 {[]plan.Change{by(place, "0-7", "1")}, false},
		"written":                       {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "2")}, true},
		"not written, tried again":      {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "2"), by(place, "1", "3")}, true},
		"the original again":            {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "0-7"), by(place, "0-7", "2")}, false},
		"put back":                      {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "0-7")}, true},
		"of an owner before":            {[]plan.Change{by(place, "0-7", "1"), by(pool, "1", "2-7")}, false},
		"of an owner before, and again": {[]plan.Change{by(pool, "0-7", "2-7"), by(place, "2-7", "1"), by(place, "2-7", "3")}, false},
		"another writer's":              {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "2"), by(place, "6", "2")}, true},
		"another writer's, then owner":  {[]plan.Change{by(place, "0-7", "1"), by(place, "1", "2"), by(pool, "6", "3")}, false},
	} {
		t.Run(name, func(t *testing.T) {
			j := mustOpen(t, t.TempDir())
			e := entry("a", "0-7")
			e.Owner = test.changes[0].Owner
			must(t, j.Begin(e))
			for _, c := range test.changes {
				must(t, j.Intend(c))
			}
			if got, _ := j.Entry(target("a")); got.Owned != test.want {
				t.Errorf("owned %v, want %v: %+v", got.Owned, test.want, got)
			}
			reread(t, j)
		})
	}
}

// TestMade checks that the value which the host made of an intent is known until the next intent, also after the file
// is read again or rewritten. While it is unknown, all values between the old and the desired one count as Berth's. A
// Berth without that record type reads an intent for an intermediate value.
func TestMade(t *testing.T) {
	kinds := plan.Kinds{"cgroup": {Part: func(_ plan.Target, v, from, to plan.Value) bool {
		return min(from, to) <= v && v <= max(from, to)
	}}}
	dir := t.TempDir()
	j, err := Open(dir, boot, kinds)
	must(t, err)
	t.Cleanup(func() { must(t, j.Close()) })
	if err := j.Made(target("a"), "3"); !errors.Is(err, ErrNoEntry) {
		t.Error(err)
	}
	e := entry("a", "0")
	e.Target.Driver = "cgroup"
	must(t, j.Begin(e))
	check := func(want string) {
		t.Helper()
		kept, err := Load(dir, kinds)
		must(t, err)
		now, _ := j.Entry(e.Target)
		if d := cmp.Diff([]Entry{now}, kept.Entries); d != "" || kept.Damage != nil {
			t.Errorf("the file (-want +got): %s%v", d, kept.Damage)
		}
		got := ""
		for v := range 10 {
			if v := plan.Value(rune('0' + v)); now.IsOurs(kinds, v) {
				got += string(v)
			}
		}
		if got != want {
			t.Errorf("Berth's are %s, want %s: %+v", got, want, now)
		}
	}
	c := change("a", "0", "8")
	c.Target = e.Target
	must(t, j.Intend(c))
	check("012345678")
	must(t, j.Made(e.Target, "3"))
	check("038")
	must(t, j.replace())
	check("038")
	c.From = "3"
	must(t, j.Intend(c))
	check("345678")
	must(t, j.Made(e.Target, "5"))
	check("358")
	c.From, c.Value = "5", "0"
	must(t, j.Intend(c))
	check("012345")

	now, _ := j.Entry(e.Target)
	older := newEntries()
	older.put(now)
	r := madeRecord(now, "2")
	r.Made = ""
	reason := older.take(kinds, r)
	if got, _ := older.entry(e.Target.Place()); reason != "" || got.Previous != "2" || got.Intent != "0" {
		t.Errorf("%s: %+v", reason, got)
	}
}
