package hostfs

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
)

// A kernel without openat2 gives the same answers.
func TestBothWaysOpenTheSame(t *testing.T) {
	outside, dir := t.TempDir(), t.TempDir()
	for path, content := range map[string]string{
		filepath.Join(outside, "secret"): "secret", filepath.Join(dir, "in"): "in", filepath.Join(dir, "d/e/f"): "f",
	} {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for link, target := range map[string]string{"fine": "d/e", "out": outside, "up": "../" + filepath.Base(outside)} {
		if err := os.Symlink(target, filepath.Join(dir, link)); err != nil {
			t.Fatal(err)
		}
	}
	top, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer top.Close()
	for way, open := range map[string]func(*os.File, string, int) (*os.File, error){"openat2": beneath, "os.Root": walk} {
		for name, want := range map[string]string{"in": "in", "d/e/f": "f", "fine/f": "f", "d/../in": "in"} {
			f, err := open(top, name, os.O_RDONLY)
			if err != nil {
				t.Errorf("%s: %s: %v", way, name, err)
				continue
			}
			if data, err := io.ReadAll(f); err != nil || string(data) != want {
				t.Errorf("%s: %s: %q, %v", way, name, data, err)
			}
			if held, err := open(top, filepath.Dir(name), os.O_RDONLY); err != nil || !filepath.IsAbs(held.Name()) {
				t.Errorf("%s: directory of %s: %v", way, name, err)
			} else if err := held.Close(); err != nil {
				t.Error(err)
			}
			_ = f.Close()
		}
		for _, name := range []string{"out/secret", "up/secret", "../" + filepath.Base(outside) + "/secret", "/etc/hostname"} {
			if f, err := open(top, name, os.O_RDONLY); err == nil {
				t.Errorf("%s: %s leads to %s", way, name, f.Name())
			}
		}
		if _, err := open(top, "d/none", os.O_RDONLY); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: missing file: %v", way, err)
		}
		if _, err := open(top, "none", os.O_WRONLY|os.O_TRUNC); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: a file was made: %v", way, err)
		}
	}
}
