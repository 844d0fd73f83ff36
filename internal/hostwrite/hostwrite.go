// Package hostwrite is the only place where a file of the host, or the affinity, cookie, policy or
// slice of a thread of others, is changed.
//
// A knob is written with one write(2), because the kernel parses each call as
// a whole value. It is opened without O_CREAT: a knob that this kernel lacks
// is an error and never an ordinary file that looks like success. Everything
// goes through a directory that the caller holds, so a write can never reach
// another group which was made meanwhile under the same name.
//
// The files by which a machine boots are no knobs: they are on a disk, and replaced as a whole
// (Replace).
//
// It does not insist on cgroupfs below it, because recorded trees and tests
// are plain directories; that the target is the intended one follows from the
// directory handed in.
package hostwrite

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/berth-project/berth/internal/hostfs"
)

// ErrBadName says that a file name holds a path.
var ErrBadName = errors.New("is not a plain file name")

// Existing replaces the content of the existing file name in d by content,
// with a single write. The error holds the path, what was to be written and
// the kernel's answer; a file that is missing is fs.ErrNotExist, a directory
// that was removed is hostfs.ErrGone.
func Existing(d *hostfs.Dir, name, content string) error {
	op := fmt.Sprintf("write %q to", content)
	if name == "" || name == "." || name == ".." || strings.Contains(name, "/") {
		return fmt.Errorf("%s %q in %s: %w", op, name, d.Path(), ErrBadName)
	}
	f, err := d.Open(name, os.O_WRONLY|os.O_TRUNC)
	if err != nil {
		return d.Explain(op, name, err)
	}
	werr := write(f, content)
	cerr := f.Close()
	if werr != nil {
		return d.Explain(op, name, werr)
	}
	if cerr != nil {
		return d.Explain(op, name, cerr)
	}
	return nil
}

// write hands content to the kernel in one call. It bypasses os.File.Write,
// which would follow a short write by a second one with the rest.
func write(f *os.File, content string) error {
	for {
		n, err := unix.Write(int(f.Fd()), []byte(content))
		runtime.KeepAlive(f)
		switch {
		case errors.Is(err, unix.EINTR): // nothing was taken yet
			continue
		case err != nil:
			return err //nolint:wrapcheck // the caller adds path and content
		case n != len(content):
			return io.ErrShortWrite
		}
		return nil
	}
}

// MakeDir makes the directory name below r, which makes a cgroup when its
// parent is one. One that is there already is fs.ErrExist.
func MakeDir(r *hostfs.Root, name string) error {
	in, err := r.Handle()
	if err == nil {
		defer in.Close()
		err = in.Mkdir(relative(name), 0o755)
	}
	if err != nil {
		return fmt.Errorf("make %s: %w", r.Join(name), bare(err))
	}
	return nil
}

// RemoveDir removes the directory name below r without looking into it, as
// cgroups are removed. EBUSY means that it still has processes or groups.
// Only a directory is ever removed.
func RemoveDir(r *hostfs.Root, name string) error {
	in, err := r.Handle()
	if err == nil {
		defer in.Close()
		err = removeDir(in, relative(name))
	}
	if err != nil {
		return fmt.Errorf("remove %s: %w", r.Join(name), bare(err))
	}
	return nil
}

func removeDir(in *os.Root, name string) error {
	switch info, err := in.Lstat(name); {
	case err != nil:
		return err //nolint:wrapcheck // the caller adds the path
	case !info.IsDir():
		return unix.ENOTDIR
	}
	return in.Remove(name) //nolint:wrapcheck // the caller adds the path
}

func relative(name string) string { return strings.TrimPrefix(path.Clean("/"+name), "/") }

// bare takes the path off an error whose message gets a better one.
func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
