// Package hostfs reads host files below a held directory: the live host when
// that directory is "/", or a recorded /proc and /sys tree in any other.
//
// Names are relative to the root, with or without a leading slash, and never
// escape it: neither by ".." nor by a symbolic link (openat2, and os.Root where
// the kernel has none, refuse both).
// A Dir holds one sub directory open and thereby pins it: when a cgroup is
// removed and made again under the same name, the Dir still means the old one
// and says so (ErrGone), instead of silently reading another group's numbers.
// A File keeps one file open and reads it from the start at every call, which
// is how kernel files are polled cheaply: about a tenth of the cost of opening
// the path again, and without allocation.
//
// Reads go to the file descriptor directly instead of through the runtime's
// poller: some kernel files can be polled for events, answer EAGAIN to a read
// and then never become ready.
package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// MaxFileSize is the most that ReadFile takes, in bytes: generous for the
// largest real ones (/proc/stat and mountinfo of big hosts, cgroup.procs of a
// group with a million processes).
const MaxFileSize = 16 << 20

// Root is a held directory tree. It is safe for concurrent use.
type Root struct {
	dir  *os.File
	path string
}

// Open holds the directory dir, which is "/" for the live host.
func Open(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open root %s: %w", dir, err)
	}
	return &Root{dir: f, path: filepath.Clean(dir)}, nil
}

// Path returns the directory as it was given to Open.
func (r *Root) Path() string { return r.path }

// Close releases the directory. Dirs and Files opened from it stay usable,
// except for Dir.Alive.
func (r *Root) Close() error {
	if err := r.dir.Close(); err != nil {
		return fmt.Errorf("close root %s: %w", r.path, err)
	}
	return nil
}

// ReadFile returns the whole file. A missing one is fs.ErrNotExist.
func (r *Root) ReadFile(name string) ([]byte, error) {
	f, err := beneath(r.dir, local(name), os.O_RDONLY)
	if err != nil {
		return nil, classify("open", r.join(name), err)
	}
	return readAll(f, r.join(name))
}

// ReadDir returns the entries of a directory, sorted by name.
func (r *Root) ReadDir(name string) ([]fs.DirEntry, error) {
	return readDir(r.dir, local(name), r.join(name))
}

// ID returns the identity of the file or directory that name means now.
func (r *Root) ID(name string) (ID, error) {
	info, err := stat(r.dir, local(name))
	if err != nil {
		return ID{}, classify("stat", r.join(name), err)
	}
	return idOf(info), nil
}

// IsDebugfs says whether the root is a directory of debugfs.
func (r *Root) IsDebugfs() bool {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(r.dir.Fd()), &s)
	runtime.KeepAlive(r)
	return err == nil && s.Type == unix.DEBUGFS_MAGIC
}

// Handle returns the directory as an os.Root, which the caller closes. It exists for links, and for
// package hostwrite, the only one that may write through it.
func (r *Root) Handle() (*os.Root, error) { return rootAt(r.dir) }

// Join returns the path of name on the machine that runs this program.
func (r *Root) Join(name string) string { return r.join(name) }

func (r *Root) join(name string) string { return filepath.Join(r.path, local(name)) }

// local turns an absolute name into one relative to the root. A name that
// climbs is left as it is, for os.Root to refuse.
func local(name string) string {
	name = strings.TrimLeft(name, "/")
	if name == "" {
		return "."
	}
	return name
}

func readDir(at *os.File, name, path string) ([]fs.DirEntry, error) {
	f, err := beneath(at, name, unix.O_DIRECTORY)
	if err != nil {
		return nil, classify("list", path, err)
	}
	defer f.Close()
	entries, err := f.ReadDir(-1)
	if err != nil {
		return nil, classify("list", path, err)
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

// classify adds what was done to which path, once, and marks what the kernel
// answers for a removed group.
func classify(op, path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if isGone(err) {
		return fmt.Errorf("%s %s: %w: %w", op, path, ErrGone, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
