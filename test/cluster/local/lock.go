package local

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"golang.org/x/sys/unix"
)

// errLocked says that another process holds a lock.
var errLocked = errors.New("locked by another process")

// flock takes an exclusive lock on a file: it waits for it, or is errLocked.
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

// lockFile is the file in Dir that is locked.
const lockFile = "lock"

// lockDir makes Dir and takes the lock of those who start or end the cluster. Dir may be
// removed while one waits: then the lock is on a file that is no more, and is taken again.
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

// current says whether an open file is still the one of its name.
func current(f *os.File) bool {
	ours, err := f.Stat()
	if err != nil {
		return false
	}
	named, err := os.Stat(f.Name())
	return err == nil && os.SameFile(ours, named)
}

// lockSupervisor takes the lock that a supervisor holds while it runs. It tries for a moment, since
// supervised holds the lock for an instant.
func lockSupervisor(ctx context.Context) (lock *os.File, err error) {
	for range 20 {
		if lock, err = flock(file("supervisor.lock"), false); !errors.Is(err, errLocked) {
			break
		}
		pause(ctx, lookEvery/4)
	}
	return lock, err
}

// supervised says whether a supervisor runs.
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
