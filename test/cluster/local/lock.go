package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked reports that another process holds a lock.
var errLocked = errors.New("locked by another process")

// flock acquires an exclusive lock on a file. If the lock is held, it waits, or returns errLocked.
func flock(name string, wait bool) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	how := unix.LOCK_EX
	if !wait {
		how |= unix.LOCK_NB
	}
	for {
		err = unix.Flock(int(f.Fd()), how)
		if !errors.Is(err, unix.EINTR) {
			break
		}
	}
	if err != nil {
		f.Close()
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, errLocked
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	return f, nil
}

// lockFile is the locked file in Dir.
const lockFile = "lock"

// lockDir makes Dir and acquires the lock of processes that start or end the cluster. Another process may remove Dir
// during the wait. The lock is then on a deleted file, and lockDir locks the new file.
func lockDir() (unlock func(), err error) {
	for {
		if err := os.MkdirAll(Dir, 0o755); err != nil {
			return nil, err
		}
		f, err := flock(file(lockFile), true)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		if current(f) {
			return func() { f.Close() }, nil
		}
		f.Close()
	}
}

// current reports whether an open file still exists under its name.
func current(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(ours, named)
}

// lockSupervisor acquires the lock that a supervisor holds while it runs. It retries for a moment, because supervised
// holds the lock for an instant.
func lockSupervisor(ctx context.Context) (lock *os.File, err error) {
	for range 20 {
		if lock, err = flock(file("supervisor.lock"), false); !errors.Is(err, errLocked) {
			break
		}
		pause(ctx, lookEvery/4)
	}
	return lock, err
}

// supervised reports whether a supervisor runs.
func supervised() bool {
	if !exists(file("supervisor.lock")) {
		return false
	}
	f, err := flock(file("supervisor.lock"), false)
	if err == nil {
		f.Close()
	}
	return errors.Is(err, errLocked)
}
