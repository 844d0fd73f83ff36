package hostfs

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"golang.org/x/sys/unix"
)

// beneath opens name below a directory that is kept open, with one system call: openat2 (Linux 5.6) resolves the whole
// path and lets nothing escape. os.Root opens each directory on the way. For each file it also makes five more calls,
// for a poller that cannot be used for kernel files. Where openat2 is missing or refused, beneath falls back to
// os.Root, which decides and explains the error.
func beneath(at *os.File, name string, flag int) (*os.File, error) {
	f, err := openat2(at, name, flag)
	if err == nil || isAnswer(err) {
		return f, err
	}
	return walk(at, name, flag)
}

// isAnswer reports whether an error of openat2 concerns the file itself, so that os.Root cannot add anything.
func isAnswer(err error) bool { return errors.Is(err, fs.ErrNotExist) || errors.Is(err, os.ErrClosed) }

func openat2(at *os.File, name string, flag int) (*os.File, error) {
	how := unix.OpenHow{
		Flags:   uint64(flag | unix.O_CLOEXEC),
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_MAGICLINKS,
	}
	conn, err := at.SyscallConn()
	if err != nil {
		return nil, err //nolint:wrapcheck // the caller names the path
	}
	fd, err := -1, os.ErrClosed // stays only if the directory is closed
	_ = conn.Control(func(dir uintptr) {
		fd, err = retry(func() (int, error) { return unix.Openat2(int(dir), name, &how) })
	})
	if err != nil {
		return nil, &fs.PathError{Op: "openat2", Path: name, Err: err}
	}
	return os.NewFile(uintptr(fd), filepath.Join(at.Name(), name)), nil
}

// walk is beneath with os.Root.
func walk(at *os.File, name string, flag int) (*os.File, error) {
	root, err := rootAt(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.OpenFile(name, flag, 0) //nolint:wrapcheck // the caller names the path
}

// rootAt returns the open directory as an os.Root.
func rootAt(at *os.File) (*os.Root, error) {
	root, err := os.OpenRoot(fmt.Sprintf("/proc/self/fd/%d", at.Fd()))
	runtime.KeepAlive(at)
	if err != nil {
		return nil, fmt.Errorf("held directory: %w", err)
	}
	return root, nil
}

// stat returns the FileInfo of name below an open directory.
func stat(at *os.File, name string) (fs.FileInfo, error) {
	f, err := openat2(at, name, unix.O_PATH)
	switch {
	case err == nil:
		defer f.Close()
		return f.Stat() //nolint:wrapcheck // the caller names the path
	case isAnswer(err):
		return nil, err
	}
	root, err := rootAt(at)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	return root.Stat(name) //nolint:wrapcheck // the caller names the path
}
