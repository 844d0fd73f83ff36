package hostfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// retries bounds how often a call that returns EAGAIN or EINTR is made.
const retries = 16

// File is one file that is kept open for repeated reading. It is for one goroutine.
type File struct {
	file *os.File
	fd   int
	path string
}

// Path returns the file's path on the machine that runs this program.
func (f *File) Path() string { return f.path }

// Read reads the file from its start into buf and returns the filled part. It allocates nothing. The error is
// ErrTooLarge if the content fills all of buf, and ErrGone for a file of a removed cgroup.
func (f *File) Read(buf []byte) ([]byte, error) {
	n, err := retry(func() (int, error) { return unix.Pread(f.fd, buf, 0) })
	runtime.KeepAlive(f.file)
	if err != nil {
		return nil, classify("read", f.path, err)
	}
	if n == len(buf) {
		return nil, fmt.Errorf("read %s into %d bytes: %w", f.path, len(buf), ErrTooLarge)
	}
	return buf[:n], nil
}

// Close closes the descriptor.
func (f *File) Close() error {
	if err := f.file.Close(); err != nil {
		return classify("close", f.path, err)
	}
	return nil
}

// readAll reads f to its end and closes it.
func readAll(f *os.File, path string) ([]byte, error) {
	defer f.Close()
	fd := int(f.Fd())
	var page [4096]byte // most kernel files have a few bytes: the result has only these
	data := page[:0]
	for {
		if len(data) == cap(data) {
			data = append(data, 0)[:len(data)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, data[len(data):cap(data)]) })
		if err != nil {
			return nil, classify("read", path, err)
		}
		if n == 0 {
			return bytes.Clone(data), nil
		}
		data = data[:len(data)+n]
		if len(data) > MaxFileSize {
			return nil, fmt.Errorf("read %s, more than %d bytes: %w", path, MaxFileSize, ErrTooLarge)
		}
	}
}

func retry(read func() (int, error)) (n int, err error) {
	for range retries {
		n, err = read()
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EINTR) {
			break
		}
		runtime.Gosched()
	}
	return n, err
}

func isGone(err error) bool { return errors.Is(err, unix.ENODEV) }

// IDOf returns the identity of a file that the kernel described.
func IDOf(info fs.FileInfo) ID {
	st, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		return ID{}
	}
	return ID{Dev: st.Dev, Ino: st.Ino}
}
