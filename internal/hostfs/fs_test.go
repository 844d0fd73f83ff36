package hostfs_test

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
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
