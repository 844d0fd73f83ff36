package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// ErrNoLink means that a directory does not belong to the running kernel's /proc, so its links are only text.
var ErrNoLink = errors.New("not of the running kernel's /proc")

// Follow opens for reading the target of a /proc/PID link such as exe: the very file, even if it has another name here,
// or no name. The directory must belong to the running kernel's /proc. Links of a recorded tree are text about another
// host, and return ErrNoLink. The kernel returns ESRCH for a process that has ended, and ENOENT for a process without a
// program of its own.
func (d *Dir) Follow(name string) (*os.File, error) {
	conn, err := d.dir.SyscallConn()
	if err != nil {
		return nil, classify("open", d.file(name), err)
	}
	fd, err := -1, os.ErrClosed // stays only if the directory is closed
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
