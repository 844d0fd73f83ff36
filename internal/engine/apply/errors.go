package apply

import "errors"

var (
	// ErrChanged means that the host no longer has the value that the change was planned from. Nothing was written;
	// observe and plan again.
	ErrChanged = errors.New("value changed since it was observed")
	// ErrGone means that the target vanished, or that another object has its name. The journal entry of the target is
	// forgotten.
	ErrGone = errors.New("group is gone")
	// ErrJournal means that the journal did not accept a record, most often because of a full disk. The host was not
	// written, unless Result.Wrote is true: then the write restored an original.
	ErrJournal = errors.New("journal cannot be written")
	// ErrNotEffective means that the write succeeded and the kernel then had another value.
	ErrNotEffective = errors.New("value is not in effect")
	// ErrPartly means that the host applied as much of the value as it could, and may apply the remainder at another
	// time.
	ErrPartly = errors.New("in effect in part only")
	// ErrRefused means that the kernel does not accept the value (EINVAL; for lists also EACCES, EBUSY, ENOSPC or
	// ERANGE, which the error matches too). Most often the cause is another writer's setting, which the message names.
	// A retry helps only once that setting is gone.
	ErrRefused = errors.New("refused by the kernel")
	// ErrNoDriver means that this program has no driver for the kind of target.
	ErrNoDriver = errors.New("no such driver")
	// ErrDeferred means that the value is written later, by another writer such as systemd, or concurrently with the
	// caller. Everything is ready for that write, and the intent is journaled.
	ErrDeferred = errors.New("put off")
	// ErrNotInForce means that the host does not use the value now, and that nobody can change it until the host uses
	// it again.
	ErrNotInForce = errors.New("not in force now")
	// ErrSkipped means that a change was not tried because a change that it needs had failed.
	ErrSkipped = errors.New("skipped")
)
