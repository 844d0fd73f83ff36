package journal

import (
	"errors"
	"fmt"
)

var (
	// ErrDamaged means that the journal has damage that no crash of Berth causes; DamageError names the line.
	ErrDamaged = errors.New("journal is damaged")
	// ErrVersion means that another version of Berth wrote the journal in a format that this version does not know.
	ErrVersion = errors.New("journal has an unknown format version")
	// ErrLocked means that another process works in the state directory; LockedError has its process id.
	ErrLocked = errors.New("state directory is locked")
	// ErrNoEntry means that the target has no entry.
	ErrNoEntry = errors.New("no journal entry")
	// ErrExists means that the target has an entry already. Its original must not be replaced by a value that Berth may
	// have written.
	ErrExists = errors.New("journal entry exists")
	// ErrNotOwner means that the entry has another owner.
	ErrNotOwner = errors.New("journal entry of another owner")
	// ErrBadEntry means that an entry cannot be recorded; the error names the reason.
	ErrBadEntry = errors.New("bad journal entry")
	// ErrClosed means that the journal was closed.
	ErrClosed = errors.New("journal is closed")
)

// DamageError names a line of the journal that cannot be read. It matches ErrDamaged.
type DamageError struct {
	// File is the path of the journal.
	File string
	// Line counts from 1.
	Line int
	// Reason is what is wrong with the line.
	Reason string
}

// Error returns a message with the file, the line and the reason.
func (e *DamageError) Error() string {
	return fmt.Sprintf("%s line %d: %v: %s", e.File, e.Line, ErrDamaged, e.Reason)
}

// Unwrap returns ErrDamaged.
func (e *DamageError) Unwrap() error { return ErrDamaged }

// LockedError names the process that has locked the state directory. It matches ErrLocked.
type LockedError struct {
	// Dir is the state directory.
	Dir string
	// PID is the holder's process id, 0 when it could not be read.
	PID int
}

// Error returns a message with the directory and the process.
func (e *LockedError) Error() string {
	if e.PID == 0 {
		return fmt.Sprintf("%s: %v by another process", e.Dir, ErrLocked)
	}
	return fmt.Sprintf("%s: %v by process %d", e.Dir, ErrLocked, e.PID)
}

// Unwrap returns ErrLocked.
func (e *LockedError) Unwrap() error { return ErrLocked }
