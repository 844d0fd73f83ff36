package bench

import (
	"context"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
)

// The arms of bench interference, in the order of its table.
const (
	Alone         = "alone"
	DefaultShares = "default shares"
	LowestWeight  = "lowest weight"
	Quota80       = "quota 80 percent"
	IdleGroup     = "idle"
	IdleReserve   = "idle with reserve"
	OwnCores      = "cores"
	AloneOnCores  = "alone on those cores"
	AloneAgain    = "alone again"
)

// InterferenceArms lists the arms in the order of the table. Without a boundary it omits the two arms with cores, and
// without a reserve the arm with a reserve.
func InterferenceArms(boundary, reserve bool) []string {
	arms := []string{Alone, DefaultShares, LowestWeight, Quota80, IdleGroup}
	if reserve {
		arms = append(arms, IdleReserve)
	}
	if boundary {
		arms = append(arms, OwnCores, AloneOnCores)
	}
	return append(arms, AloneAgain)
}

// The default load of bench interference, for each CPU of the machine: requests of 1.5 ms keep the machine busy by 15
// %, so that offline work has most of it.
const (
	DefaultVictimRate = 100.0
	DefaultVictimWork = 1500 * time.Microsecond
	DefaultReserve    = 10
)

// quotaShare is the part of the machine for offline work in the document that Berth is measured by.
const quotaShare = 0.8

// InterferenceOptions configures bench interference.
type InterferenceOptions struct {
	LoadOptions

	// Root contains /proc/stat and the topology of this machine.
	Root *hostfs.Root
	// Reserve is the percentage of the CPUs of each L3 that hogs leave free in the arm with a reserve.
	Reserve int
}

// beside is the use of CPUs beside the server in one arm of one repetition.
type beside struct {
	// Hogs, Idle and Steal are mean numbers of CPUs: used by the hogs, idle on the machine, and taken by the
	// hypervisor.
	Hogs, Idle, Steal float64
	// Together is the part of the server's running time in which a hog ran on the same core. Waited is the mean number
	// of server threads that were ready to run without a CPU, and Behind says behind whom. All are nil if the kernel
	// does not report them.
	Together, Waited *float64
	Behind           *behind
	// Lost is the least number of the scheduler's events that were lost; then Together and Behind are nil.
	Lost uint64
}

// RunInterference measures all arms and returns the report. Everything it made is gone when it returns, also when ctx
// ends, which is an error. Without cpu.idle the error matches kernel.ErrNotSupported.
func RunInterference(ctx context.Context, o InterferenceOptions) (r *InterferenceReport, err error) {
	if err := o.open("interference"); err != nil {
		return nil, err
	}
	if err := o.checkIdle(); err != nil {
		return nil, err
	}
	o.Progress("what the server uses alone, for the boundary")
	boundary, err := o.boundary(ctx)
	if err != nil {
		return nil, err
	}
	r = &InterferenceReport{Machine: o.Machine, Setup: o.setup(), Boundary: boundary.report(), Repetitions: o.Repetitions}
	if boundary.scheduler, r.CoResidency, r.Waiting, err = watchScheduler(o.Root); err != nil {
		return nil, err
	}
	names := InterferenceArms(boundary.Exists, !boundary.reserve.IsEmpty())
	all, err := measureArms(o.LoadOptions, names, func(arm string, arrivals []time.Duration) (Outcome, beside, error) {
		return o.run(ctx, arm, boundary, arrivals)
	})
	if err != nil {
		return nil, err
	}
	r.summarize(all, names)
	r.Goals = judgeInterference(r)
	r.note(o)
	return r, WriteSummary(o.Out, r)
}

func (o InterferenceOptions) setup() InterferenceSetup {
	return InterferenceSetup{
		RequestsPerSec: o.Pattern.Rate * float64(o.Pattern.Batch), WorkMicros: o.Work.Microseconds(), Hogs: o.Machine.CPUs,
		ArmSeconds: o.Duration.Seconds(), Seed: o.Pattern.Seed, Quick: o.Quick,
	}
}
