package hostfs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"
)

func TestFS(t *testing.T) {
	root, dir := tree(t, map[string]string{"sys/cpu/cpu0/id": "0\n", "sys/online": "0\n"})
	if err := fstest.TestFS(root.FS(), "sys/cpu/cpu0/id", "sys/online"); err != nil {
		t.Error(err)
	}
	sub, err := fs.Sub(root.FS(), "sys/cpu")
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(sub, "cpu0/id"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"../online", "/sys/online"} {
		if data, err := fs.ReadFile(sub, name); err == nil {
			t.Errorf("ReadFile(%q) = %q", name, data)
		}
	}
	for name, want := range map[string]error{"none": fs.ErrNotExist, "../..": fs.ErrInvalid, "/sys": fs.ErrInvalid} {
		if _, err := fs.Sub(root.FS(), name); !errors.Is(err, want) {
			t.Errorf("Sub(%q): %v, want %v", name, err, want)
		}
	}
	if err := os.Symlink("/", filepath.Join(dir, "sys/out")); err != nil {
		t.Fatal(err)
	}
	if _, err := fs.Sub(root.FS(), "sys/out"); err == nil {
		t.Error("a sub tree led out")
	}
	closer, ok := sub.(io.Closer)
	if !ok {
		t.Fatal("a sub tree cannot be closed")
	}
	if err := closer.Close(); err != nil {
		t.Error(err)
	}
	if _, err := fs.ReadFile(sub, "cpu0/id"); err == nil {
		t.Error("read from a closed tree")
	}
	if _, ok := root.FS().(io.Closer); ok {
		t.Error("whoever has the file system can close the root")
	}
}

// TestFilesAreThoseOfTheRoot: the file system gives what os.Root does, for links that stay inside
// and those that lead out, for what is no file, and for long files.
func TestFilesAreThoseOfTheRoot(t *testing.T) {
	root, dir := tree(t, map[string]string{"sys/cpu/cpu0/id": "0\n", "long": strings.Repeat("x", 5000), "page": strings.Repeat("y", 4096), "empty": ""})
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{
		"inside": "sys/cpu", "sys/up": "../sys/cpu/cpu0", "out": outside, "climbs": "../" + filepath.Base(filepath.Dir(outside)), "dangling": "none", "loop": "loop",
	} {
		if err := os.Symlink(to, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	handle, err := root.Handle()
	if err != nil {
		t.Fatal(err)
	}
	defer handle.Close()
	slow := handle.FS()
	unlike := func(a, b error) bool {
		differs := func(class error) bool { return errors.Is(a, class) != errors.Is(b, class) }
		return (a == nil) != (b == nil) || slices.ContainsFunc([]error{fs.ErrNotExist, fs.ErrInvalid, fs.ErrPermission}, differs)
	}
	for _, name := range []string{
		"sys/cpu/cpu0/id", "inside/cpu0/id", "sys/up/id", "long", "page", "empty", "out", "climbs/secret", "dangling", "loop", "none", "none/id",
		"sys", "sys/cpu/cpu0/id/x", "../" + filepath.Base(dir) + "/page", "/page", "sys/../page", "",
	} {
		want, wrong := fs.ReadFile(slow, name)
		got, err := fs.ReadFile(root.FS(), name)
		if string(got) != string(want) || unlike(err, wrong) {
			t.Errorf("ReadFile(%q) = %d bytes, %v, want %d, %v", name, len(got), err, len(want), wrong)
		}
		is, wrong := fs.Stat(slow, name)
		info, err := fs.Stat(root.FS(), name)
		if unlike(err, wrong) {
			t.Errorf("Stat(%q): %v, want %v", name, err, wrong)
		} else if err == nil && (info.Name() != is.Name() || info.Mode() != is.Mode() || info.Size() != is.Size() || !os.SameFile(info, is)) {
			t.Errorf("Stat(%q) = %+v, want %+v", name, info, is)
		}
	}
	files := root.FS()
	if err := root.Close(); err != nil {
		t.Fatal(err)
	}
	if data, err := fs.ReadFile(files, "page"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("read %d bytes of a closed root, %v", len(data), err)
	}
	if _, err := fs.Stat(files, "page"); !errors.Is(err, os.ErrClosed) {
		t.Errorf("a file of a closed root: %v", err)
	}
}
