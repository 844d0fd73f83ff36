package service

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// entry is a file or a directory with an owner.
type entry struct {
	mode     fs.FileMode
	uid, gid uint32
}

func (e entry) Name() string       { return "" }
func (e entry) Size() int64        { return 0 }
func (e entry) Mode() fs.FileMode  { return e.mode }
func (e entry) ModTime() time.Time { return time.Time{} }
func (e entry) IsDir() bool        { return e.mode.IsDir() }
func (e entry) Sys() any           { return &syscall.Stat_t{Uid: e.uid, Gid: e.gid} }

// TestWriters: what another user than root can replace is refused, what a group can is said.
func TestWriters(t *testing.T) {
	const nobody, staff = 65534, 50
	for name, c := range map[string]struct {
		of             entry
		refused, doubt string
	}{
		"a program":                     {entry{0o755, 0, 0}, "", ""},
		"a program of root's group":     {entry{0o775, 0, 0}, "", ""},
		"of another user":               {entry{0o755, nobody, 0}, "belongs to user 65534; allowed: root", ""},
		"which others write":            {entry{0o757, 0, 0}, "every user can replace: its mode is 0757", ""},
		"which a group writes":          {entry{0o775, 0, staff}, "", "group 50 can replace what root runs (mode 0775)"},
		"a directory":                   {entry{fs.ModeDir | 0o755, 0, 0}, "", ""},
		"a directory of another user":   {entry{fs.ModeDir | 0o755, nobody, nobody}, "belongs to user 65534", ""},
		"which all write":               {entry{fs.ModeDir | 0o777, 0, 0}, "its mode is 0777", ""},
		"which all write, but sticky":   {entry{fs.ModeDir | fs.ModeSticky | 0o777, 0, 0}, "", ""},
		"sticky, of another user":       {entry{fs.ModeDir | fs.ModeSticky | 0o777, nobody, 0}, "belongs to user 65534", ""},
		"a program with the bit sticky": {entry{fs.ModeSticky | 0o777, 0, 0}, "its mode is 0777", ""},
	} {
		doubt, err := writers("/opt/berth", c.of)
		if refused := errors.Is(err, ErrPath); refused != (c.refused != "") || refused && !strings.Contains(err.Error(), c.refused) {
			t.Errorf("%s: %v, want %q", name, err, c.refused)
		}
		if c.doubt == "" && doubt != "" || !strings.Contains(doubt, c.doubt) {
			t.Errorf("%s: doubt %q, want %q", name, doubt, c.doubt)
		}
	}
}

// TestTrusted: the directories above the program count as well.
func TestTrusted(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("gives files away; runs as root in: make test")
	}
	dir, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "opt/bin/berth")
	put(t, program, "")
	if doubts, err := Trusted(program); err != nil || len(doubts) != 0 {
		t.Fatal(doubts, err)
	}
	if err := os.Chown(filepath.Join(dir, "opt"), 65534, 65534); err != nil {
		t.Fatal(err)
	}
	if _, err := Trusted(program); !errors.Is(err, ErrPath) || !strings.Contains(err.Error(), "/opt: ") {
		t.Error(err)
	}
	if _, err := Trusted(program + "-none"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}
