package durable

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/test/disk"
)

// A file is replaced or made, with its mode, and nothing is left beside it.
func TestReplace(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	for _, want := range []struct {
		text string
		mode fs.FileMode
	}{{"one", 0o600}, {"two, which is longer", 0o600}, {"", 0o644}, {"three", 0o600}} {
		if err := Replace(name, []byte(want.text), want.mode); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err := errors.Join(err, statErr); err != nil || string(text) != want.text || info.Mode() != want.mode {
			t.Errorf("%q, %v: %v, want %q, %v", text, info.Mode(), err, want.text, want.mode)
		}
	}
	alone(t, name)
}

// What a killed call left beside the file goes with a later one: at once where nobody else writes there, else after
// an hour, as another call may be at work.
func TestDrafts(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	name := filepath.Join(dir, "file")
	ago := func(file string, age time.Duration) {
		t.Helper()
		file = filepath.Join(dir, file)
		if err := errors.Join(os.WriteFile(file, []byte("half and mu"), 0o600), os.Chtimes(file, time.Time{}, time.Now().Add(-age))); err != nil {
			t.Fatal(err)
		}
	}
	ago(".file.4711", 2*time.Hour)
	ago(".file.4712", time.Minute)
	ago(".file.txt.1", 2*time.Hour)
	ago(".file.old", 2*time.Hour)
	ago("file.new", time.Minute)
	if err := Replace(name, []byte("one"), 0o600); err != nil {
		t.Fatal(err)
	}
	names := func() (all []string) {
		entries, _ := os.ReadDir(dir)
		for _, e := range entries {
			all = append(all, e.Name())
		}
		return all
	}
	if got := names(); !slices.Equal(got, []string{".file.4712", ".file.old", ".file.txt.1", "file", "file.new"}) {
		t.Errorf("after Replace: %q", got)
	}
	for _, sync := range []bool{true, false} {
		ago("file.new", time.Minute)
		if err := Rewrite(name, []byte("two"), 0o644, sync); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(name)
		info, statErr := os.Stat(name)
		if err := errors.Join(err, statErr); err != nil || string(text) != "two" || info.Mode() != 0o644 {
			t.Errorf("%q, %v: %v", text, info.Mode(), err)
		}
		if got := names(); slices.Contains(got, "file.new") || len(got) != 4 {
			t.Errorf("after Rewrite: %q", got)
		}
	}
}

// alone checks that nothing is beside a file.
func alone(t *testing.T, name string) {
	t.Helper()
	all, err := os.ReadDir(filepath.Dir(name))
	if err != nil || len(all) != 1 || all[0].Name() != filepath.Base(name) {
		t.Errorf("in the directory: %v, %v", all, err)
	}
}

// Who reads a file while others replace it finds the whole of what one of them wrote.
func TestReadWhileReplaced(t *testing.T) {
	t.Parallel()
	name := filepath.Join(t.TempDir(), "file")
	contents := [][]byte{bytes.Repeat([]byte("a"), 1<<16), bytes.Repeat([]byte("b"), 3)}
	if err := Replace(name, contents[0], 0o600); err != nil {
		t.Fatal(err)
	}
	var writers sync.WaitGroup
	for _, content := range contents {
		writers.Go(func() {
			for range 50 {
				if err := Replace(name, content, 0o600); err != nil {
					t.Error(err)
				}
			}
		})
	}
	written := make(chan struct{})
	go func() { writers.Wait(); close(written) }()
	for reading := true; reading; {
		select {
		case <-written:
			reading = false
		default:
		}
		if text, err := os.ReadFile(name); err != nil || !bytes.Equal(text, contents[0]) && !bytes.Equal(text, contents[1]) {
			t.Fatalf("%d bytes: %v", len(text), err)
		}
	}
	alone(t, name)
}

// Where a file cannot be replaced, it is as it was, nothing is left beside it, and the error names it.
func TestReplaceFails(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	gone := filepath.Join(dir, "gone", "file")
	if err := Replace(gone, nil, 0o600); !errors.Is(err, fs.ErrNotExist) || !strings.Contains(err.Error(), gone) {
		t.Errorf("no directory: %v", err)
	}
	occupied := filepath.Join(dir, "occupied")
	if err := os.MkdirAll(filepath.Join(occupied, "by"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := Replace(occupied, []byte("x"), 0o600); err == nil || !strings.Contains(err.Error(), occupied) {
		t.Errorf("over a directory: %v", err)
	}
	alone(t, occupied)
}

// A disk that is full keeps the old content.
func TestReplaceOnAFullDisk(t *testing.T) {
	dir := disk.Small(t)
	name := filepath.Join(dir, "file")
	if err := Replace(name, []byte("old"), 0o600); err != nil {
		t.Fatal(err)
	}
	disk.Fill(t, dir)
	if err := Replace(name, bytes.Repeat([]byte("new"), 1<<12), 0o600); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("error %v", err)
	}
	if text, err := os.ReadFile(name); err != nil || string(text) != "old" {
		t.Errorf("%q, %v", text, err)
	}
	if all, err := os.ReadDir(dir); err != nil || len(all) != 2 {
		t.Errorf("in the directory: %v, %v", all, err)
	}
}

// What Replace and Rewrite wrote survives that the machine loses its power right after. What was only written does not: the test takes away what is not on disk.
func TestPowerCut(t *testing.T) {
	image := filepath.Join(t.TempDir(), "image")
	dir, cut := extMount(t, image)
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	replaced, rewritten, lost := filepath.Join(dir, "replaced"), filepath.Join(dir, "rewritten"), filepath.Join(dir, "lost")
	must(Replace(replaced, []byte("old"), 0o600))
	must(Replace(replaced, []byte("new"), 0o600))
	must(Rewrite(rewritten, []byte("text"), 0o600, true))
	must(os.WriteFile(lost, []byte("text"), 0o600))
	cut()
	for name, want := range map[string]string{replaced: "new", rewritten: "text", lost: ""} {
		if text, _ := os.ReadFile(name); string(text) != want {
			t.Errorf("%s: %q, want %q", filepath.Base(name), text, want)
		}
	}
}

// extMount mounts a new ext4 file system of an image. cut takes its power, and mounts it again.
func extMount(t *testing.T, image string) (dir string, cut func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting a file system needs root; runs in: make unit, as root")
	}
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skipf("%v; runs in: make unit, where e2fsprogs is installed", err)
	}
	run := func(name string, args ...string) error {
		out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
		if err != nil {
			t.Logf("%s: %s", name, out)
		}
		return err
	}
	if err := os.WriteFile(image, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Truncate(image, 16<<20), run(mkfs, "-q", image)); err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	mount := func() error { return run("mount", "-t", "ext4", "-o", "loop", image, dir) }
	if mount() != nil {
		t.Skip("mounting an image; runs in: make unit, on a kernel with loop devices and ext4")
	}
	t.Cleanup(func() {
		if err := unix.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	return dir, func() {
		t.Helper()
		d, err := os.Open(dir)
		if err != nil {
			t.Fatal(err)
		}
		err = unix.IoctlSetPointerInt(int(d.Fd()), shutdown, withoutLog)
		if err = errors.Join(err, d.Close(), unix.Unmount(dir, 0)); err != nil {
			t.Fatal(err)
		}
		if err := mount(); err != nil {
			t.Fatal(err)
		}
	}
}

// EXT4_IOC_SHUTDOWN and EXT4_GOING_FLAGS_NOLOGFLUSH (fs/ext4/ext4.h): the file system ends at once,
// and nothing more of it is written, not even its log.
const (
	shutdown   = 0x8004587d
	withoutLog = 2
)
