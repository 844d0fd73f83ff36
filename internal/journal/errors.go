package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrDamaged says that the journal is damaged as no crash of Berth does it;
	// DamageError has the place.
	ErrDamaged = errors.New("journal is damaged")
	// ErrVersion says that another version of Berth wrote the journal in a
	// format that this one does not know.
	ErrVersion = errors.New("journal has an unknown format version")
	// ErrLocked says that another process works in the state directory;
	// LockedError has its id.
	ErrLocked = errors.New("state directory is locked")
	// ErrNoEntry says that the target has no entry.
	ErrNoEntry = errors.New("no journal entry")
	// ErrExists says that the target has an entry already, whose original
	// must not be replaced by a value that Berth may have written.
	ErrExists = errors.New("journal entry exists")
	// ErrNotOwner says that the entry is another owner's.
	ErrNotOwner = errors.New("journal entry of another owner")
	// ErrBadEntry says that an entry cannot be recorded, naming the reason.
	ErrBadEntry = errors.New("bad journal entry")
	// ErrClosed says that the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// DamageError is a line of the journal that cannot be read. It matches ErrDamaged.
type DamageError struct {
	// File is the path of the journal.
	File string
	// Line counts from 1.
	Line int
	// Reason says what is wrong with the line.
	Reason string
}

// Error names file, line and reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s line %d: %v: %s", e.File, e.Line, ErrDamaged, e.Reason)
}

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// LockedError says who holds the state directory. It matches ErrLocked.
type LockedError struct {
	// Dir is the state directory.
	Dir string
	// PID is the holder's process id, 0 when it could not be read.
	PID int
}

// Error names the directory and the process.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: %v by another process", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("%s: %v by process %d", e.Dir, ErrLocked, e.PID)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }
