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

	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/test/disk"
)

// format1Recording is a journal that the last version with format 1 wrote. It has a unit's list, a group's list, a
// quota that was raised, raised again and rebased, a burst, and a forgotten quota.
const format1Recording = "testdata/format1/journal"

func format1Content(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile(format1Recording)
	must(t, err)
	return data
}

// format1Entries returns the entries of the recording.
func format1Entries() []Entry {
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
		}),
	}
}

func writeJournal(t *testing.T, dir string, data []byte) {
	t.Helper()
	must(t, os.WriteFile(filepath.Join(dir, fileName), data, 0o600))
}

// TestFormat1 checks that a journal of format 1 can be read, and is converted when it is opened.
func TestFormat1(t *testing.T) {
	dir := t.TempDir()
	writeJournal(t, dir, format1Content(t))
	s, err := Load(dir, nil)
	must(t, err)
	if s.Damage != nil || s.Torn {
		t.Errorf("damage %v, torn %v", s.Damage, s.Torn)
	}
	if d := cmp.Diff(format1Entries(), s.Entries); d != "" {
		t.Errorf("loaded (-want +got):\n%s", d)
	}
	j := mustOpen(t, dir)
	if d := cmp.Diff(format1Entries(), j.Entries()); d != "" {
		t.Errorf("opened (-want +got):\n%s", d)
	}
	if j.Recovery() != (Recovery{}) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	data, err := os.ReadFile(filepath.Join(dir, fileName))
	must(t, err)
	if !bytes.Contains(data, []byte(`"version":2`)) || bytes.Contains(data, []byte(`"group"`)) || bytes.Contains(data, []byte(`"dev"`)) {
		t.Errorf("not rolled over:\n%s", data)
	}
	reread(t, j)
}

// TestFormat1Threads checks that threads which format 1 stored with a group belong to the entry of its target.
func TestFormat1Threads(t *testing.T) {
	threads := []Thread{{TID: 7, Start: 1 << 40, CPUs: "0-3,8"}}
	line, err := encode(record{
		Kind: kindThreads, format1: format1{Group: "system.slice/redis.service"}, Knob: "cpuset.cpus", Threads: threads,
	})
	must(t, err)
	dir := t.TempDir()
	writeJournal(t, dir, append(format1Content(t), line...))
	want := format1Entries()
	want[3].Threads = threads
	j := mustOpen(t, dir)
	if d := cmp.Diff(want, j.Entries()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	reread(t, j)
}

// TestFormat1Torn checks that a journal of format 1, truncated anywhere, has the content of its complete lines, and
// that Open accepts it.
func TestFormat1Torn(t *testing.T) {
	data := format1Content(t)
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
	want := format1Entries()
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

// TestFormat1OnAFullDisk checks a disk without room for the conversion. The rollback continues in the old file, which
// then has records of two formats.
func TestFormat1OnAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	writeJournal(t, dir, format1Content(t))
	disk.Fill(t, dir)
	j := mustOpen(t, dir)
	if !errors.Is(j.Recovery().NoRoom, unix.ENOSPC) {
		t.Errorf("recovery %+v", j.Recovery())
	}
	if d := cmp.Diff(format1Entries(), j.Entries()); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	must(t, j.Forget(format1Entries()[0].Target))
	reread(t, j)
	must(t, j.Close())
	j = mustOpen(t, dir)
	if d := cmp.Diff(format1Entries()[1:], j.Entries()); d != "" {
		t.Errorf("opened again (-want +got):\n%s", d)
	}
}

// TestUnknownVersions checks that a journal with an unknown version is not read.
func TestUnknownVersions(t *testing.T) {
	for _, v := range []int{-1, 0, version + 1} {
		dir := t.TempDir()
		line, err := encode(record{Kind: kindHeader, Version: v, Boot: boot})
		must(t, err)
		writeJournal(t, dir, line)
		if _, err := Load(dir, nil); !errors.Is(err, ErrVersion) {
			t.Errorf("version %d: %v", v, err)
		}
	}
}
