package hostfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Lock acquires an exclusive advisory lock (flock) on the open directory, and never waits for it. It writes nothing and
// also works on cgroup directories. The lock belongs to this Dir until Unlock, Close or the end of the process. Until
// then another Dir of the same directory gets ErrBusy, in this process and in others. A second Lock of the same Dir
// does nothing. A file system without locks is errors.ErrUnsupported.
func (d *Dir) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock != nil {
		return nil
	}
	// The lock has its own descriptor, and ends when that is closed.
	f, err := d.Open(".", unix.O_DIRECTORY)
	if err != nil {
		return d.Explain("open", ".", err)
	}
	if err := flock(f); err != nil {
		_ = f.Close() // nothing was locked
		return fmt.Errorf("lock %s: %w", d.Path(), err)
	}
	d.lock = f
	return nil
}

// Unlock releases the lock. Without a lock it does nothing.
func (d *Dir) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close() // no other code has the descriptor: closing it ends the lock
	d.lock = nil
	if err != nil {
		return fmt.Errorf("unlock %s: %w", d.Path(), err)
	}
	return nil
}

func flock(f *os.File) error {
	for {
		err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		runtime.KeepAlive(f)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EWOULDBLOCK):
			return ErrBusy
		case errors.Is(err, unix.ENOLCK):
			return fmt.Errorf("%w: %w", errors.ErrUnsupported, err)
		}
		return err //nolint:wrapcheck // the caller names the directory
	}
}
