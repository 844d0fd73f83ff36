package tuner

import "errors"

var (
	// ErrApplied means that another profile is applied and has to be rolled back first.
	ErrApplied = errors.New("a profile is applied")
	// ErrNotApplied means that no profile is applied.
	ErrNotApplied = errors.New("no profile is applied")
	// ErrUndone means that an apply failed and was undone, or with ErrLeft not wholly.
	ErrUndone = errors.New("the apply failed")
	// ErrHeld means that the agent holds a target.
	ErrHeld = errors.New("the agent holds it")
	// ErrLeft means that values could not be restored: another program changed them, or the kernel refused the
	// originals. The originals stay in the journal.
	ErrLeft = errors.New("not all is as before")
	// ErrNoUnits means that units cannot be set here: this host has no control groups.
	ErrNoUnits = errors.New("units are set on a running host with control groups only")
	// ErrMems means that a unit cannot have other memory nodes now. Nothing was written.
	ErrMems = errors.New("its memory nodes stay")
	// ErrBegin means that a unit could not start with a list, because it asks for other CPUs or memory nodes itself.
	// Nothing was written.
	ErrBegin = errors.New("the next start of the unit would fail")
	// ErrNoTrial means that the boot loader does not support an entry for one boot.
	ErrNoTrial = errors.New("no boot for trial here, and --no-trial was not given")
	// ErrChosen means that another program chose the entry of the next boot.
	ErrChosen = errors.New("another entry is chosen for the next boot")
	// ErrPending means that the running kernel was not booted with the boot arguments.
	ErrPending = errors.New("the boot arguments wait for a boot")
	// ErrDied means that the host died in two boots in a row while the committed profile was applied. Nothing was
	// written.
	ErrDied = errors.New("the host died twice while it was applied after a boot, so it is left off: look at it (berth tune plan), then apply it by hand (berth tune apply PROFILE) or end it (berth tune rollback)")
	// ErrUnwritten means that a limit of real-time threads has its original: an apply ended before its last write, a
	// rollback ended after its first write, or another program wrote it. Nothing was committed.
	ErrUnwritten = errors.New("has its original: apply the profile again, or roll it back")
	// ErrKeeper means that no process could be started that enforces the deadline. Nothing was written.
	ErrKeeper = errors.New("nothing keeps the deadline")
)
