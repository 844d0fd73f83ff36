package tuner

import "errors"

var (
	// ErrApplied says that another profile is applied: it has to be rolled back first.
	ErrApplied = errors.New("a profile is applied")
	// ErrNotApplied says that no profile is applied.
	ErrNotApplied = errors.New("no profile is applied")
	// ErrUndone says that an apply failed and all of it was put back, or the reason why not.
	ErrUndone = errors.New("the apply failed")
	// ErrHeld says that the agent holds a target.
	ErrHeld = errors.New("the agent holds it")
	// ErrLeft says that values could not be put back, because another program changed them
	// or the kernel did not take them. Their originals stay in the journal.
	ErrLeft = errors.New("not all is as before")
	// ErrKeeper says that nothing could be started that keeps the deadline. Nothing was
	// written.
	ErrKeeper = errors.New("nothing keeps the deadline")
)
