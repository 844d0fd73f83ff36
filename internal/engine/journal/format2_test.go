package journal

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/test/disk"
)

// format2Recording is a journal that Berth wrote at commit 80a17d1, the oldest version whose journal Berth must read. It
// has a unit's list with a thread, a group's list, a quota that was raised, raised again and rebased, a burst, and a
// forgotten quota.
const format2Recording = "testdata/format2/journal"

func format2Content(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(format2Recording)
	must(t, err)
	return data
}

// format2Entries returns the entries of the recording.
func format2Entries() []Entry {
	entry := func(driver plan.Driver, object, knob string, e Entry) Entry {
		e.Target = plan.Target{Driver: driver, Object: object, Knob: knob}
		e.Boot, e.Since = boot, time.Date(2026, 11, 20, 9, 0, 0, 0, time.UTC)
		return e
	}
	return []Entry{
		entry("cgroup", "app", "cpu.max", Entry{
			ID: "65024:10028808", Original: "150000 100000", Intent: "400000 100000", Previous: "300000 100000", Owned: true,
			Owner: plan.OwnerBurst, Workload: "w", Why: "test", Writes: 2,
		}),
		entry("cgroup", "app", "cpu.max.burst", Entry{
			ID: "65024:10028808", Original: "50000 100000", Intent: "200000 100000", Previous: "300000 100000", Owned: true,
			Owner: plan.OwnerBurst, Workload: "w", Why: "test", Writes: 2,
		}),
		entry("cgroup", "kubepods/pod1/c", "cpuset.cpus", Entry{
			ID: "65024:10028820", Original: "inherit", Intent: "0-1", Previous: "inherit",
			Owner: plan.OwnerPool, Workload: "w", Why: "redis has 2-3", Writes: 1,
		}),
		entry("systemd", "system.slice/redis.service", "cpuset.cpus", Entry{
			ID: "65024:10028813", Original: "inherit", Intent: "2-3", Previous: "inherit",
			Owner: plan.OwnerPlace, Workload: "redis", Why: "redis has 2-3", Writes: 1,
			Threads: []Thread{{TID: 7, Start: 1 << 40, CPUs: "0-3,8", Without: "9"}},
		}),
	}
}

func writeJournal(t *testing.T, dir string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, fileName), data, 0o600))
}

// TestFormat2 checks that the recording can be read, and that Open rewrites it without history.
func TestFormat2(t *testing.T) {
	dir := t.TempDir()
	writeJournal(t, dir, format2Content(t))
	s, err := Load(dir, nil)
	must(t, err)
	if s.Damage != nil || s.Torn {
		t.Errorf("damage %v, torn %v", s.Damage, s.Torn)
	}
	if d := cmp.Diff(format2Entries(), s.Entries); d != "" {
		t.Errorf("loaded (-want +got):\n%s", d)
	}
	j := mustOpen(t, dir)
	if d := cmp.Diff(format2Entries(), j.Entries()); d != "" {
		t.Errorf("opened (-want +got):\n%s", d)
	}
	if j.Recovery() != (Recovery{}) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	if lines := bytes.Count(data, []byte("\n")); lines != 1+len(format2Entries()) || !bytes.Contains(data, []byte(`"version":2`)) {
		t.Errorf("%d lines after the rewrite:\n%s", lines, data)
	}
	reread(t, j)
}

// TestFormat2Torn checks that the recording, truncated anywhere, has the content of its complete lines, and that Open
// accepts it.
func TestFormat2Torn(t *testing.T) {
	data := format2Content(t)
	last := bytes.LastIndexByte(data[:len(data)-1], '\n') + 1
	for size := range len(data) {
		whole := bytes.LastIndexByte(data[:size], '\n') + 1
		want, err := replay("journal", data[:whole], nil)
		must(t, err)
		got, err := replay("journal", data[:size], nil)
		must(t, err)
		if d := cmp.Diff(want.Entries, got.Entries); d != "" || got.Damage != nil || got.Torn != (size != whole) {
			t.Fatalf("cut at %d: damage %v, torn %v (-want +got):\n%s", size, got.Damage, got.Torn, d)
		}
	}
	dir := t.TempDir()
	writeJournal(t, dir, data[:len(data)-20])
	want := format2Entries()
	want[1].Intent, want[1].Previous, want[1].Writes, want[1].Owned = "300000 100000", "50000 100000", 1, false // the last line is the burst's
	j := mustOpen(t, dir)
	if d := cmp.Diff(want, j.Entries()); d != "" || !j.Recovery().Torn {
		t.Errorf("torn %v (-want +got):\n%s", j.Recovery().Torn, d)
	}
	reread(t, j)
	if !bytes.Contains(data[last:], []byte("cpu.max.burst")) {
		t.Error("the recording ends with another record than the burst's")
	}
}

// TestFormat2OnAFullDisk checks a disk without room for the rewrite. The rollback continues in the recorded file.
func TestFormat2OnAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	writeJournal(t, dir, format2Content(t))
	disk.Fill(t, dir)
	j := mustOpen(t, dir)
	if !errors.Is(j.Recovery().NoRoom, unix.ENOSPC) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	if d := cmp.Diff(format2Entries(), j.Entries()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	must(t, j.Forget(format2Entries()[0].Target))
	reread(t, j)
	must(t, j.Close())
	j = mustOpen(t, dir)
	if d := cmp.Diff(format2Entries()[1:], j.Entries()); d != "" {
		t.Errorf("opened again (-want +got):\n%s", d)
	}
}

// TestUnknownVersions checks that a journal of another version is refused with both versions, and stays as it is.
// Version 1 is one of them: no release wrote it.
func TestUnknownVersions(t *testing.T) {
	for _, v := range []int{-1, 0, 1, version + 1} {
		dir := t.TempDir()
		line, err := encode(record{Kind: kindHeader, Version: v, Boot: boot})
		must(t, err)
		old := bytes.Join([][]byte{line, framed([]byte(`{"kind":"original","group":"a","knob":"cpu.max","value":"max 100000"}`))}, nil)
		writeJournal(t, dir, old)
		file := filepath.Join(dir, fileName)
		want := fmt.Sprintf("%s has version %d, and this program reads only version 2: journal has an unknown format version", file, v)
		_, load := Load(dir, nil)
		_, open := Open(dir, boot, nil)
		_, salvage := Salvage(dir, boot, nil)
		for name, err := range map[string]error{"Load": load, "Open": open, "Salvage": salvage} {
			if !errors.Is(err, ErrVersion) || err.Error() != want {
				t.Errorf("version %d: %s: %v, want %s", v, name, err, want)
			}
		}
		data, err := os.ReadFile(file)
		must(t, err)
		if !bytes.Equal(data, old) {
			t.Errorf("version %d: the file is now\n%s", v, data)
		}
	}
}
