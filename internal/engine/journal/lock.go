package journal

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// lockName is the lock file in the state directory. It is never removed: removing a lock file races with opening
	// it.
	lockName = "lock"
	// lockTries and lockPause bound how long a writer waits for a Holder call, which holds a shared lock for an
	// instant.
	lockTries = 5
	lockPause = 10 * time.Millisecond
	// pidFormat has a fixed width, so that a later holder rewrites the file in place and needs no disk space.
	pidFormat = "%-10d\n"
)

// acquire locks the state directory for this process.
func acquire(stateDir string) (*os.File, error) {
	name := filepath.Join(stateDir, lockName)
	f, err := os.OpenFile(name, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open lock: %w", err)
	}
	for range lockTries {
		if err = flock(f, unix.LOCK_EX|unix.LOCK_NB); !errors.Is(err, unix.EWOULDBLOCK) {
			break
		}
		time.Sleep(lockPause)
	}
	if err != nil {
		pid := readPID(f)
		_ = f.Close() // nothing was written
		if errors.Is(err, unix.EWOULDBLOCK) {
			return nil, &LockedError{Dir: stateDir, PID: pid}
		}
		return nil, fmt.Errorf("lock %s: %w", name, err)
	}
	writePID(f, os.Getpid())
	return f, nil
}

// release releases the lock.
func release(f *os.File) error {
	writePID(f, 0)
	if err := f.Close(); err != nil {
		return fmt.Errorf("close lock: %w", err)
	}
	return nil
}

// Holder returns the process that has locked the state directory. pid is the number that the process wrote, 0 when it
// has not written it yet. alive is true while the lock is held, and false with the pid that a killed process left
// behind. For a directory that was never used, Holder returns (0, false, nil).
func Holder(stateDir string) (pid int, alive bool, err error) {
	f, err := os.Open(filepath.Join(stateDir, lockName))
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, nil
	}
	if err != nil {
		return 0, false, fmt.Errorf("open lock: %w", err)
	}
	defer f.Close()
	err = flock(f, unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return readPID(f), true, nil
	case err != nil:
		return 0, false, fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	return readPID(f), false, nil
}

// Released waits until no process has locked the state directory, and returns at once if none has. It does not poll.
// The error is that of ctx, or the file system's.
func Released(ctx context.Context, stateDir string) error {
	_, held, err := Holder(stateDir)
	if !held {
		return err
	}
	f, err := os.Open(filepath.Join(stateDir, lockName))
	if err != nil {
		return fmt.Errorf("open lock: %w", err)
	}
	released := make(chan error, 1)
	go func() { // an exiting process does not wait for it
		defer f.Close()
		released <- flock(f, unix.LOCK_SH)
	}()
	select {
	case <-ctx.Done():
		return ctx.Err() //nolint:wrapcheck // the caller's own
	case err := <-released:
		if err != nil {
			return fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		return nil
	}
}

func flock(f *os.File, how int) error {
	return uninterrupted(func() error { return unix.Flock(int(f.Fd()), how) })
}

// writePID is best effort: flock is the lock, and the number only names its holder.
func writePID(f *os.File, pid int) {
	_, _ = f.WriteAt(fmt.Appendf(nil, pidFormat, pid), 0)
}

func readPID(f *os.File) int {
	buf := make([]byte, 32)
	n, _ := f.ReadAt(buf, 0)
	pid, err := strconv.Atoi(string(bytes.TrimSpace(buf[:n])))
	if err != nil {
		return 0
	}
	return pid
}
