package journal

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/engine/plan"
)

// TestThreads checks that the threads of an entry survive a crash and a rewrite, and disappear with the entry.
func TestThreads(t *testing.T) {
	dir := t.TempDir()
	j := mustOpen(t, dir)
	target := plan.Target{Driver: "cgroup", Object: "a", Knob: "cpuset.cpus"}
	threads := []Thread{{TID: 7, Start: 1 << 40, CPUs: "0-3,8", Without: "9"}, {TID: 9, Start: 5, CPUs: "2"}}
	if err := j.KeepThreads(target, threads); !errors.Is(err, ErrNoEntry) {
		t.Errorf("without an entry: %v", err)
	}
	must(t, j.Begin(Entry{Target: target, Original: "0-7", Owner: "place"}))
	must(t, j.KeepThreads(target, threads))
	for range 2 { // the first opening reads the record, the second what the first rewrote
		snapshot, err := Load(dir, nil)
		must(t, err)
		if len(snapshot.Entries) != 1 || !cmp.Equal(snapshot.Entries[0].Threads, threads) || snapshot.Damage != nil {
			t.Fatalf("entries %+v, damage %v", snapshot.Entries, snapshot.Damage)
		}
		must(t, j.Close())
		j = mustOpen(t, dir)
	}
	must(t, j.KeepThreads(target, nil))
	if e, _ := j.Entry(target); len(e.Threads) > 0 {
		t.Errorf("threads %+v", e.Threads)
	}
	must(t, j.Close())
}
