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
	// ErrNoUnits says that units cannot be set here: this is no host with control groups.
	ErrNoUnits = errors.New("units are set on a running host with control groups only")
	// ErrMems says that a unit cannot have other memory nodes now. Nothing was written.
	ErrMems = errors.New("its memory nodes stay")
	// ErrNoTrial says that the boot loader takes no entry for one boot.
	ErrNoTrial = errors.New("no boot for trial here, and --no-trial was not given")
	// ErrChosen says that another program chose the entry of the next boot.
	ErrChosen = errors.New("another entry is chosen for the next boot")
	// ErrPending says that the running kernel was not booted with the boot arguments.
	ErrPending = errors.New("the boot arguments wait for a boot")
	// ErrDied says that the host died in two boots in a row while what was committed was applied. Nothing was
	// written.
	ErrDied = errors.New("the host died twice while it was applied after a boot, so it is left off: look at it (berth tune plan), then apply it by hand (berth tune apply PROFILE) or end it (berth tune rollback)")
	// ErrUnwritten says that a limit of real-time threads has its original: an apply ended before its last write, a
	// rollback after its first one, or another program wrote it. Nothing was committed.
	ErrUnwritten = errors.New("has its original: apply the profile again, or roll it back")
	// ErrKeeper says that nothing could be started that keeps the deadline. Nothing was
	// written.
	ErrKeeper = errors.New("nothing keeps the deadline")
)
