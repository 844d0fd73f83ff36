package hostfs_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// tree is a recorded host with some files.
func tree(t *testing.T, files map[string]string) (*hostfs.Root, string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	root, err := hostfs.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { root.Close() })
	return root, dir
}

func TestReadFile(t *testing.T) {
	long := strings.Repeat("0123456789", 10_000)
	root, dir := tree(t, map[string]string{"sys/a/b": "1\n", "sys/long": long, "sys/empty": ""})
	for name, want := range map[string]string{
		"sys/a/b": "1\n", "/sys/a/b": "1\n", "/sys//a/b": "1\n", "sys/long": long, "sys/empty": "",
	} {
		got, err := root.ReadFile(name)
		if err != nil || string(got) != want {
			t.Errorf("ReadFile(%q): %d bytes, %v, want %d", name, len(got), err, len(want))
		}
	}
	_, err := root.ReadFile("/sys/none")
	if !errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfs.ErrGone) {
		t.Errorf("missing file: %v", err)
	}
	if want := filepath.Join(dir, "sys/none"); err != nil && !strings.Contains(err.Error(), want) {
		t.Errorf("%v does not name %s", err, want)
	}
	if _, err := root.ReadFile("sys/a"); err == nil {
		t.Error("read a directory")
	}
}

func TestTooLarge(t *testing.T) {
	root, dir := tree(t, nil)
	path := filepath.Join(dir, "big")
	if err := os.WriteFile(path, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, hostfs.MaxFileSize); err != nil {
		t.Fatal(err)
	}
	if data, err := root.ReadFile("big"); err != nil || len(data) != hostfs.MaxFileSize {
		t.Errorf("largest file: %d bytes, %v", len(data), err)
	}
	if err := os.Truncate(path, hostfs.MaxFileSize+1); err != nil {
		t.Fatal(err)
	}
	if _, err := root.ReadFile("big"); !errors.Is(err, hostfs.ErrTooLarge) {
		t.Errorf("one byte more: %v", err)
	}
}

func TestNothingEscapes(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o644); err != nil {
		t.Fatal(err)
	}
	root, dir := tree(t, map[string]string{"sys/in": "in", "sys/d/x": "x"})
	for link, target := range map[string]string{
		"abs": outside, "rel": "../" + filepath.Base(filepath.Dir(outside)) + "/secret", "fine": "sys/in", "dir": "/",
	} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"abs", "rel", "../x", "sys/../../x", "dir/etc/hostname", outside + "/../../" + outside} {
		if data, err := root.ReadFile(name); err == nil {
			t.Errorf("ReadFile(%q) = %q", name, data)
		}
		if d, err := root.Dir(name); err == nil {
			t.Errorf("Dir(%q) = %s", name, d.Path())
		}
		if e, err := root.ReadDir(name); err == nil {
			t.Errorf("ReadDir(%q) = %v", name, e)
		}
	}
	if data, err := root.ReadFile("fine"); err != nil || string(data) != "in" {
		t.Errorf("a link inside: %q, %v", data, err)
	}
	d, err := root.Dir("sys/d")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if data, err := d.ReadFile("../in"); err == nil {
		t.Errorf("a directory let %q out", data)
	}
}

func TestReadDir(t *testing.T) {
	root, _ := tree(t, map[string]string{"d/b": "", "d/a": "", "d/c/x": ""})
	d, err := root.Dir("/d")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	names := func(entries []fs.DirEntry, err error) (list []string) {
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			list = append(list, e.Name())
		}
		return list
	}
	for _, got := range [][]string{names(root.ReadDir("d")), names(root.ReadDir("/d/")), names(d.ReadDir())} {
		if diff := cmp.Diff([]string{"a", "b", "c"}, got); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	if _, err := root.ReadDir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
}

func TestFileIsReadAgainFromTheStart(t *testing.T) {
	root, dir := tree(t, map[string]string{"d/f": "one"})
	d, err := root.Dir("d")
	if err != nil {
		t.Fatal(err)
	}
	f, err := d.Keep("f")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := d.Close(); err != nil { // the file outlives its directory
		t.Fatal(err)
	}
	var buf [8]byte
	for _, content := range []string{"one", "three", ""} {
		if err := os.WriteFile(filepath.Join(dir, "d/f"), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		got, err := f.Read(buf[:])
		if err != nil || string(got) != content {
			t.Errorf("%q, %v, want %q", got, err, content)
		}
	}
	if _, err := f.Read(buf[:0]); !errors.Is(err, hostfs.ErrTooLarge) {
		t.Errorf("no buffer: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "d/f"), bytes.Repeat([]byte("x"), 8), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Read(buf[:]); !errors.Is(err, hostfs.ErrTooLarge) {
		t.Errorf("as long as the buffer, and perhaps cut: %v", err)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Read(buf[:]) }); n > 5 {
		t.Errorf("a failing read allocates %v times", n)
	}
	large := make([]byte, 64)
	if n := testing.AllocsPerRun(100, func() { _, _ = f.Read(large) }); n > 0 {
		t.Errorf("a read allocates %v times", n)
	}
}

// TestGone removes a held directory, and makes it again under its name.
func TestGone(t *testing.T) {
	root, dir := tree(t, map[string]string{"g/f": "old"})
	d, err := root.Dir("g")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if err := d.Alive(); err != nil {
		t.Fatal(err)
	}
	if _, err := d.ReadFile("none"); !errors.Is(err, fs.ErrNotExist) || errors.Is(err, hostfs.ErrGone) {
		t.Errorf("missing file of a living directory: %v", err)
	}
	if err := os.RemoveAll(filepath.Join(dir, "g")); err != nil {
		t.Fatal(err)
	}
	check := func(when string) {
		t.Helper()
		if err := d.Alive(); !errors.Is(err, hostfs.ErrGone) {
			t.Errorf("%s: Alive = %v", when, err)
		}
		if data, err := d.ReadFile("f"); !errors.Is(err, hostfs.ErrGone) {
			t.Errorf("%s: ReadFile = %q, %v", when, data, err)
		}
		if _, err := d.Keep("f"); !errors.Is(err, hostfs.ErrGone) {
			t.Errorf("%s: Keep = %v", when, err)
		}
	}
	check("removed")
	if err := os.MkdirAll(filepath.Join(dir, "g"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "g/f"), []byte("new"), 0o644); err != nil {
		t.Fatal(err)
	}
	check("made again")
	again, err := root.Dir("g")
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	if again.ID() == d.ID() {
		t.Errorf("both are %v", d.ID())
	}
}

// TestKernelFiles reads what the running kernel shows.
func TestKernelFiles(t *testing.T) {
	root, err := hostfs.Open("/")
	if err != nil {
		t.Fatal(err)
	}
	defer root.Close()
	for _, name := range []string{"/proc/self/mountinfo", "/proc/stat", "/proc/self/cgroup", "/sys/devices/system/cpu/online"} {
		if data, err := root.ReadFile(name); err != nil || len(data) == 0 {
			t.Errorf("%s: %d bytes, %v", name, len(data), err)
		}
	}
	d, err := root.Dir("proc/" + strconv.Itoa(os.Getpid()))
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if comm, err := d.ReadFile("comm"); err != nil || len(comm) == 0 {
		t.Errorf("comm: %q, %v", comm, err)
	}
}

func TestOpenErrors(t *testing.T) {
	if _, err := hostfs.Open(filepath.Join(t.TempDir(), "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing root: %v", err)
	}
	root, _ := tree(t, map[string]string{"f": ""})
	if _, err := root.Dir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("missing directory: %v", err)
	}
	if _, err := root.Dir("f"); err == nil {
		t.Error("a file taken for a directory")
	}
	if _, err := fs.ReadFile(root.FS(), "f"); err != nil {
		t.Errorf("as a file system: %v", err)
	}
}

// A directory below a held one is the same as from the root, and nothing above it can be
// reached by its name.
func TestDirBelow(t *testing.T) {
	root, dir := tree(t, map[string]string{"top/g/f": "text", "other/f": "x"})
	top, err := root.Dir("top")
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	d, err := top.Dir("g")
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	if want := filepath.Join(dir, "top/g"); d.Path() != want {
		t.Errorf("path %s, want %s", d.Path(), want)
	}
	if id, err := root.ID("top/g"); err != nil || id != d.ID() {
		t.Errorf("identity %v, from the root %v, %v", d.ID(), id, err)
	}
	if data, err := d.ReadFile("f"); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
	if _, err := top.Dir("none"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
	if _, err := top.Dir("../other"); err == nil {
		t.Error("a directory beside it was opened")
	}
	same, err := top.Dir("")
	if err != nil || same.ID() != top.ID() {
		t.Fatalf("the directory itself: %v", err)
	}
	defer same.Close()
	if err := os.RemoveAll(filepath.Join(dir, "top/g")); err != nil {
		t.Fatal(err)
	}
	if err := d.Alive(); !errors.Is(err, hostfs.ErrGone) {
		t.Errorf("removed: Alive = %v", err)
	}
}
