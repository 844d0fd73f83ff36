package hostfs

import (
	"errors"
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"
)

// Lock takes an exclusive advisory lock (flock) on the held directory, and
// never waits for it. It writes nothing and works on cgroup directories too.
// The lock belongs to this Dir: another Dir of the same directory is refused
// with ErrBusy, in this process as in any other, until Unlock, Close or the end
// of the process. Locking what is locked already does nothing. A file system
// without locks is errors.ErrUnsupported.
func (d *Dir) Lock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock != nil {
		return nil
	}
	// The lock has a descriptor of its own: it goes with that.
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

// Unlock gives the lock back. Without one it does nothing.
func (d *Dir) Unlock() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.lock == nil {
		return nil
	}
	err := d.lock.Close() // no other code has the descriptor: the lock goes with it
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
