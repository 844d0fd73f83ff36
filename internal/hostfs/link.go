package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoLink says that a directory is none of the running kernel's /proc, so that no link in it
// leads anywhere but by its text.
var ErrNoLink = errors.New("not of the running kernel's /proc")

// Follow opens for reading what a link of /proc/PID leads to, such as exe: the very file, also
// where it has another name here, or none. It is for a held directory of the running kernel's
// /proc; links of a recorded tree are text about another host, and an ErrNoLink. For a process that
// has ended the kernel says ESRCH, and ENOENT for one that runs no program of its own.
func (d *Dir) Follow(name string) (*os.File, error) {
	conn, err := d.dir.SyscallConn()
	if err != nil {
		return nil, classify("open", d.file(name), err)
	}
	fd, err := -1, os.ErrClosed // which it stays only where the directory is
	_ = conn.Control(func(dir uintptr) { fd, err = follow(int(dir), local(name)) })
	if err != nil {
		return nil, classify("open", d.file(name), err)
	}
	return os.NewFile(uintptr(fd), d.file(name)), nil
}

func follow(dir int, name string) (int, error) {
	var of unix.Statfs_t
	if err := unix.Fstatfs(dir, &of); err != nil {
		return -1, fmt.Errorf("file system: %w", err)
	}
	if of.Type != unix.PROC_SUPER_MAGIC {
		return -1, ErrNoLink
	}
	fd, err := retry(func() (int, error) { return unix.Openat(dir, name, unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0) })
	if err != nil {
		return -1, &fs.PathError{Op: "openat", Path: name, Err: err}
	}
	return fd, nil
}
