package apply

import "errors"

var (
	// ErrChanged says that the host no longer has the value that the change
	// was planned from. Nothing was written; observe and plan again.
	ErrChanged = errors.New("value changed since it was observed")
	// ErrGone says that the target vanished, or another one stands under its
	// name. What was journaled for it is forgotten.
	ErrGone = errors.New("group is gone")
	// ErrJournal says that the journal did not take a record, most often for a
	// full disk. The host was not written, unless Result.Wrote says so: then
	// it was the way back to an original.
	ErrJournal = errors.New("journal cannot be written")
	// ErrNotEffective says that the write succeeded and the kernel then had
	// another value.
	ErrNotEffective = errors.New("value is not in effect")
	// ErrPartly says that the host took as much of the value as it could, and may take the rest at
	// another time.
	ErrPartly = errors.New("in effect in part only")
	// ErrRefused says that the kernel does not take the value (EINVAL, for lists
	// also EACCES, EBUSY, ENOSPC or ERANGE, which the error matches too), most
	// often because of another writer's setting that the message names. Trying
	// again helps only once that one is gone.
	ErrRefused = errors.New("refused by the kernel")
	// ErrNoDriver says that this program has no driver for the kind of target.
	ErrNoDriver = errors.New("no such driver")
	// ErrDeferred says that the value is written later, by another writer such as systemd, or
	// beside the caller: all is ready for that, and the intent journaled.
	ErrDeferred = errors.New("put off")
	// ErrNotInForce says that the host does nothing of the value now, and that nobody can change it
	// until it does again.
	ErrNotInForce = errors.New("not in force now")
	// ErrSkipped says that a change was not tried because one that it needs
	// had failed.
	ErrSkipped = errors.New("skipped")
)
