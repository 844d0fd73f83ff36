// Package hostfs reads host files below a directory that it keeps open: "/" for the live host, or any other directory
// with a recorded /proc and /sys tree.
//
// Names are relative to the root, with or without a leading slash, and never escape it, neither by ".." nor by a
// symbolic link. openat2 refuses both, and so does os.Root where the kernel has no openat2.
//
// A Dir keeps one subdirectory open and so pins it. After a cgroup is removed and made again under the same name,
// the Dir still refers to the old cgroup. It returns ErrGone instead of silently reading another group's numbers. A
// File keeps one file open and reads it from the start at every call. This polls kernel files without allocation, at
// about a tenth of the cost of opening the path again.
//
// Reads use the file descriptor directly instead of the runtime's poller: some kernel files can be polled for events,
// return EAGAIN to a read and then never become ready.
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

// MaxFileSize is the most that ReadFile reads, in bytes. It is generous for the largest real files (/proc/stat and
// mountinfo of big hosts, cgroup.procs of a group with a million processes).
const MaxFileSize = 16 << 20

// Root is a directory tree whose top is kept open. It is safe for concurrent use.
type Root struct {
	dir  *os.File
	path string
}

// Open opens the directory dir, which is "/" for the live host.
func Open(dir string) (*Root, error) {
	f, err := os.OpenFile(dir, os.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, fmt.Errorf("open root %s: %w", dir, err)
	}
	return &Root{dir: f, path: filepath.Clean(dir)}, nil
}

// Path returns the directory that was given to Open.
func (r *Root) Path() string { return r.path }

// Close closes the directory. Dirs and Files opened from it stay usable, except for Dir.Alive.
func (r *Root) Close() error {
	if err := r.dir.Close(); err != nil {
		return fmt.Errorf("close root %s: %w", r.path, err)
	}
	return nil
}

// ReadFile returns the content of the whole file. A missing file is fs.ErrNotExist.
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

// ID returns the identity of the file or directory to which name leads now.
func (r *Root) ID(name string) (ID, error) {
	info, err := stat(r.dir, local(name))
	if err != nil {
		return ID{}, classify("stat", r.join(name), err)
	}
	return IDOf(info), nil
}

// IsDebugfs reports whether the root is a directory of debugfs.
func (r *Root) IsDebugfs() bool {
	var s unix.Statfs_t
	err := unix.Fstatfs(int(r.dir.Fd()), &s)
	runtime.KeepAlive(r)
	return err == nil && s.Type == unix.DEBUGFS_MAGIC
}

// Handle returns the directory as an os.Root, which the caller closes. It exists for links, and for package hostwrite,
// the only package that may write through it.
func (r *Root) Handle() (*os.Root, error) { return rootAt(r.dir) }

// Join returns the path of name on the machine that runs this program.
func (r *Root) Join(name string) string { return r.join(name) }

func (r *Root) join(name string) string { return filepath.Join(r.path, local(name)) }

// local converts an absolute name into a name relative to the root. It leaves a name with ".." unchanged, for openat2
// or os.Root to refuse.
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

// classify adds the operation and the path to an error, once, and adds ErrGone to the kernel's error for a removed
// group.
func classify(op, path string, err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		err = pe.Err
	}
	if isGone(err) {
		return fmt.Errorf("%s %s: %w: %w", op, path, ErrGone, err)
	}
	return fmt.Errorf("%s %s: %w", op, path, err)
}
