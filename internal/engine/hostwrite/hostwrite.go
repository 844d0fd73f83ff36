// Package hostwrite is the only place that changes a file of the host, or the affinity, cookie, policy or slice of a
// thread of another program.
//
// A knob is written with one write(2), because the kernel parses each call as a whole value. It is opened without
// O_CREAT: a knob that this kernel lacks is an error, and never an ordinary file that looks like success. Every write
// goes through a directory that the caller keeps open, so it can never reach a new group of the same name.
//
// The files from which a machine boots are no knobs: they are on a disk, and replaced as a whole (Replace).
//
// The package does not require cgroupfs, because recorded trees and tests are plain directories. The caller's directory
// determines the target.
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

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// ErrBadName means that a file name contains a path.
var ErrBadName = errors.New("is not a plain file name")

// Existing replaces the content of the existing file name in d by content, with a single write. The error contains the
// path, the content and the kernel's answer. A missing file is fs.ErrNotExist, a removed directory is hostfs.ErrGone.
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

// write passes content to the kernel in one call. It bypasses os.File.Write, which would follow a short write with a
// second write.
func write(f *os.File, content string) error {
	for {
		n, err := unix.Write(int(f.Fd()), []byte(content))
		runtime.KeepAlive(f)
		switch {
		case errors.Is(err, unix.EINTR): // the kernel has written nothing yet
			continue
		case err != nil:
			return err //nolint:wrapcheck // the caller adds path and content
		case n != len(content):
			return io.ErrShortWrite
		}
		return nil
	}
}

// MakeDir makes the directory name below r, which makes a cgroup if the parent is a cgroup. An existing directory is
// fs.ErrExist.
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

// RemoveDir removes the directory name below r without listing its content, as cgroups are removed. EBUSY means that
// the group still has processes or groups below it. RemoveDir never removes anything but a directory.
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

// bare removes the path from an error whose message gets a better path.
func bare(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
