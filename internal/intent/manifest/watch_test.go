package manifest

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestWatcher plays one story. Each step changes something or nothing, and lists what the following checks must report.
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
		step.do()
		for i, want := range step.want {
			if got := w.Changed(); got != want {
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
	w.Changed()
	reported := 0
	for i := range 3 * maxRestless {
		write(t, filepath.Join(dir, "a.yaml"), fmt.Sprintf("%0*d", i+1, 0))
		if w.Changed() {
			reported++
		}
	}
	if reported != 3 {
		t.Errorf("%d reports in %d restless looks, want 3", reported, 3*maxRestless)
	}
	if !w.Changed() || w.Changed() {
		t.Error("the last state is not reported exactly once")
	}
}

func BenchmarkTakeFingerprint(b *testing.B) {
	dir := b.TempDir()
	for i := range 50 {
		if err := os.WriteFile(filepath.Join(dir, fmt.Sprintf("%d.yaml", i)), []byte(good), 0o600); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		takeFingerprint("", dir)
	}
}
