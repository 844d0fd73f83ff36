package tuner

import (
	"fmt"
	"strconv"
	"time"

	"github.com/berth-project/berth/internal/capability/tune"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/knob"
)

// The knobs whose files do not show all that the kernel makes of a value.
const (
	roundRobin = "rr.slice"
	fairSlice  = "fair.slice"
	// ResumeLatency is a knob whose effect only two looks at the usage of idle states show (JudgeIdle).
	ResumeLatency = "cpu.resumeLatency"
)

// Kernel has the questions to the running kernel beyond its files. A nil function asks nothing, and the files decide:
// below another root they are another kernel's. An apply, a verification and the agent ask the same questions.
type Kernel struct {
	// RoundRobin returns how long a thread of SCHED_RR runs before an equal one, in whole ticks of Tick.
	RoundRobin func() (time.Duration, error)
	Tick       time.Duration
	// Slice returns the slice of a thread without one of its own, 0 if the kernel does not answer it.
	Slice func() (time.Duration, error)
	// Scheduled returns how a thread is scheduled.
	Scheduled func(tid int) (kernel.Scheduled, error)
}

// KernelOf returns the questions to the running kernel, and none for a directory or nil.
func KernelOf(root *hostfs.Root) Kernel {
	if root == nil || root.Path() != "/" {
		return Kernel{}
	}
	return Kernel{RoundRobin: kernel.RoundRobin, Tick: kernel.Tick(), Slice: kernel.DefaultThreadSlice, Scheduled: kernel.ThreadScheduled}
}

// rounding is how much shorter than its ticks the kernel's answer may be. A tick has whole nanoseconds: at 300 ticks a
// second, the kernel answers 9.999999 ms for 10 ms.
const rounding = time.Microsecond

// readBack compares the kernel's answer with a setting that its file has. If the kernel does not answer, for example
// because this program may not give threads real-time policies, the file decides.
func (k Kernel) readBack(row tune.Verified) tune.Verified {
	if row.State != tune.OK {
		return row
	}
	name, want := duration(row)
	switch {
	case want <= 0: // also the sysctl's word for the kernel's default
	case name == roundRobin && k.RoundRobin != nil:
		made, err := k.RoundRobin()
		if err != nil {
			return row
		}
		row.Effective = made.String()
		if made+rounding < want || made >= want+k.Tick { // the next multiple of a tick
			row.State = tune.Ignored
		}
	case name == fairSlice && k.Slice != nil:
		made, err := k.Slice()
		if err == nil && made > 0 && !tune.Near(made, want) {
			row.Effective, row.State = made.String(), tune.Ignored
		}
	}
	return row
}

// duration returns the knob and the desired value of a setting that is a duration, "" and 0 for another setting. A
// profile names the knob, or the sysctl that is its file. A sysctl has a number in the kernel's unit.
func duration(row tune.Verified) (name string, want time.Duration) {
	if want, err := time.ParseDuration(row.Want); err == nil {
		return row.Knob, want
	}
	k, scale, known := knob.OfFile(row.File)
	n, err := strconv.ParseInt(row.Want, 10, 64)
	if !known || k.Unit != knob.Duration || err != nil {
		return "", 0
	}
	return k.Name, time.Duration(n * scale)
}

// check returns apply.ErrNotEffective if the kernel made something else of a setting that its file has.
func (k Kernel) check(s tune.Setting) error {
	row := k.readBack(tune.Verified{Knob: s.Knob, File: s.File, Want: s.Want, Effective: s.Want, State: tune.OK})
	if row.State == tune.OK {
		return nil
	}
	return fmt.Errorf("wrote %s, the file has it, and the kernel uses %s: %w", s.Want, row.Effective, apply.ErrNotEffective)
}
