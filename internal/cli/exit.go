package cli

import (
	"errors"
	"io/fs"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/agent"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/cli/restoration"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/boot"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/linux/bootargs"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/demo"
	"github.com/berth-project/berth/internal/scheduler/relocation"
)

// Exit codes of every command, as the user documentation promises.
const (
	exitDone        = 0
	exitFailed      = 1
	exitUsage       = 2
	exitUnsupported = 3
	exitDiffers     = 4
)

// Error classes that only the command line knows.
var (
	// ErrUsage is a bad flag, argument or combination of them.
	ErrUsage = errors.New("bad usage")
	// ErrUnsupported is a kernel, node or privilege that a command needs but does not have.
	ErrUnsupported = errors.New("not supported here")
	// ErrDiffers is a host whose values differ from what Berth left, or a host that a live agent manages.
	ErrDiffers = errors.New("the host differs")
	// ErrHeld is a resource that another workload has exclusively.
	ErrHeld = errors.New("held by another workload")
)

// exitCode returns the documented exit code for an error's class.
func exitCode(err error) int {
	switch {
	case err == nil:
		return exitDone
	case isAny(err, usageClasses()):
		return exitUsage
	case isAny(err, unsupportedClasses()):
		return exitUnsupported
	case isAny(err, differsClasses()):
		return exitDiffers
	case errors.Is(err, fs.ErrPermission): // EACCES, EPERM: a missing privilege; the error names the file
		return exitUnsupported
	default:
		return exitFailed
	}
}

func isAny(err error, classes []error) bool {
	for _, class := range classes {
		if errors.Is(err, class) {
			return true
		}
	}
	return false
}

func usageClasses() []error { return []error{ErrUsage, v1alpha1.ErrInvalid} }

func unsupportedClasses() []error {
	return []error{
		ErrUnsupported, agent.ErrReadOnly, bench.ErrMissing, demo.ErrUnsupported, kernel.ErrNotSupported,
		cgroup.ErrNoHierarchy, cgroup.ErrNoController, cgroup.ErrNoKnob,
		bootargs.ErrByHand, boot.ErrElsewhere, tuner.ErrNoTrial, tuner.ErrBegin,
		errNoTrace, mover.ErrOwnMems, mover.ErrRealTime, mover.ErrUnseen,
	}
}

func differsClasses() []error {
	return []error{
		ErrDiffers, ErrHeld, bench.ErrNotUndone, journal.ErrLocked, agent.ErrLeftBehind, apply.ErrChanged,
		tuner.ErrApplied, tuner.ErrNotApplied, tuner.ErrHeld, tuner.ErrLeft, tuner.ErrMems, tuner.ErrDied, tuner.ErrUnwritten,
		tuner.ErrChosen, tuner.ErrPending, cgroupfile.ErrForeign, cgroupfile.ErrOccupied, restoration.ErrNotRestored, relocation.ErrUnfinished,
	}
}
