package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tick is more than the clock tick of a file system: two changes that far apart have different times.
const tick = 20 * time.Millisecond

// TestWatcher plays one story. Each step changes something or nothing, and lists what the following checks must report.
// The checks are an hour later, so that they use a list of files again.
func TestWatcher(t *testing.T) {
	root := t.TempDir()
	config, dir := filepath.Join(root, "agent.yaml"), filepath.Join(root, "workloads")
	a, b := filepath.Join(dir, "a.yaml"), filepath.Join(dir, "b.yaml")
	write(t, config, "workloadDir: workloads\n")
	w := NewWatcher(config, dir)
	story := []struct {
		name string
		do   func()
		want []bool
	}{
		{"the first look", func() {}, []bool{true, false, false}},
		{"the directory appears", func() { check(t, os.Mkdir(dir, 0o700)) }, []bool{false, true, false}},
		{"a file appears", func() { write(t, a, good) }, []bool{false, true, false}},
		{"it is written in place", func() { write(t, a, good+"# longer\n") }, []bool{false, true, false}},
		{"only its time changes", func() { check(t, os.Chtimes(a, time.Unix(1, 0), time.Unix(1, 0))) }, []bool{false, true, false}},
		{"a twin is renamed over it", func() {
			write(t, b+".tmp", good+"# longer\n")
			check(t, os.Chtimes(b+".tmp", time.Unix(1, 0), time.Unix(1, 0)))
			check(t, os.Rename(b+".tmp", a))
		}, []bool{false, true, false}},
		{"it becomes unreadable to others", func() { check(t, os.Chmod(a, 0o400)) }, []bool{false, true, false}},
		{"an editor works beside it", func() { write(t, filepath.Join(dir, ".a.yaml.swp"), "x") }, []bool{false, false}},
		{"it is renamed", func() { check(t, os.Rename(a, b)) }, []bool{false, true, false}},
		{"the agent's file changes", func() { write(t, config, "workloadDir: ./workloads\n") }, []bool{false, true, false}},
		{"the file vanishes", func() { check(t, os.Remove(b)) }, []bool{false, true, false}},
		{"the agent's file vanishes", func() { check(t, os.Remove(config)) }, []bool{false, true, false}},
		{"the directory vanishes", func() { check(t, os.RemoveAll(dir)) }, []bool{false, true, false}},
	}
	for _, step := range story {
		time.Sleep(tick)
		step.do()
		for i, want := range step.want {
			if got := w.Changed(time.Now().Add(time.Hour)); got != want {
				t.Errorf("%s, look %d: changed %t, want %t", step.name, i+1, got, want)
			}
		}
	}
}

// TestWatcherWaitsForRest checks that a file is not read while it is being written, and that a file which changes
// continuously is read eventually.
func TestWatcherWaitsForRest(t *testing.T) {
	dir := t.TempDir()
	w := NewWatcher("", dir)
	w.Changed(time.Now())
	reported := 0
	for i := range 3 * maxRestless {
		write(t, filepath.Join(dir, "a.yaml"), fmt.Sprintf("%0*d", i+1, 0))
		if w.Changed(time.Now()) {
			reported++
		}
	}
	if reported != 3 {
		t.Errorf("%d reports in %d restless looks, want 3", reported, 3*maxRestless)
	}
	if !w.Changed(time.Now()) || w.Changed(time.Now()) {
		t.Error("the last state is not reported exactly once")
	}
}

// TestListing checks when a directory is listed although its times show no change: while its last change is so recent
// that the next one may have the same time, and at every tenth look, because a file system may have no such times.
func TestListing(t *testing.T) {
	dir := t.TempDir()
	l := listing{dir: dir}
	has := func(later time.Duration, want int) {
		t.Helper()
		paths, err := l.look(l.was.changed().Add(later))
		check(t, err)
		if len(paths) != want {
			t.Errorf("%d files, want %d", len(paths), want)
		}
	}
	// unseen writes a file that does not change what the times of the directory show.
	unseen := func(name string) {
		t.Helper()
		write(t, filepath.Join(dir, name), good)
		var err error
		l.was, err = factsOf(dir)
		check(t, err)
	}
	unseen("a.yaml")
	has(settled-1, 1)
	unseen("b.yaml")
	has(settled, 2)
	unseen("c.yaml")
	for range maxReused {
		has(settled, 2)
	}
	has(settled, 3)
	time.Sleep(tick)
	write(t, filepath.Join(dir, "d.yaml"), good)
	has(settled, 4)
}

func BenchmarkTakeFingerprint(b *testing.B) {
	dir := b.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(good), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	l := listing{dir: dir}
	for b.Loop() {
		takeFingerprint("", &l, time.Now())
	}
}
