package demo

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/proof/load"
	"github.com/berth-project/berth/internal/value/unit"
)

// Options configures the demonstration.
type Options struct {
	Home    *Home
	Machine bench.Machine
	// Host is the topology of the machine.
	Host *topology.Topology
	// Only are the capabilities to show, all if empty.
	Only []string
	// Managed is why no group may get CPUs of its own here, such as another agent, Profile why no profile may be applied.
	// Both are "" for no reason.
	Managed, Profile string
	Limit            unit.CPUs
	Pattern          load.Pattern
	// Work is the CPU time of one request.
	Work time.Duration
	// Rounds is the number of rounds of slices; in each round, all arms get the same arrivals.
	Rounds int
	// Slice is how long one arm of burst is under load in one round, and Arm how long one arm of the other parts.
	Slice, Arm time.Duration
	// Progress is called with the current step; it may be nil.
	Progress func(string)
}

// Capabilities returns the names of all parts, in their order.
func Capabilities() []string { return []string{"burst", "place", "isolate", "localize", "tune"} }

// part is the demonstration of a capability.
type part interface {
	// lacks returns why this host cannot show the capability, "" if it can.
	lacks() string
	// show measures, kills Berth, goes back, and adds a table and the files to the report. It returns what lacks cannot
	// know before.
	show(ctx context.Context, r *Report) (lacks string, err error)
	// close removes everything that the part made. It can be called without show.
	close() error
}

func (o Options) part(capability string) part {
	switch capability {
	case "place":
		return &place{Options: o}
	case "isolate":
		return &isolate{Options: o}
	case "localize":
		return &localize{Options: o}
	case "tune":
		return &tune{Options: o}
	}
	return &burst{Options: o}
}

// ErrNotRestored reports that a file is not as before.
var ErrNotRestored = errors.New("a file is not as before")

// Run runs the demonstration and returns its report, also together with ErrNotRestored or the error of a part that
// failed. Everything that Run made is gone when it returns, also when ctx ends, which is an error without a report.
func Run(ctx context.Context, o Options) (*Report, error) {
	if o.Progress == nil {
		o.Progress = func(string) {}
	}
	r := o.newReport()
	var failed []error
	for _, capability := range Capabilities() {
		if len(o.Only) > 0 && !slices.Contains(o.Only, capability) {
			continue
		}
		why, err := o.demonstrate(ctx, capability, r)
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", capability, err))
			why = "it failed"
		}
		if err := ctx.Err(); err != nil {
			return nil, errors.Join(append(failed, err)...)
		}
		if why != "" {
			r.Parts = append(r.Parts, Part{Capability: capability, Why: why})
		}
	}
	r.Restored = len(failed) == 0
	for _, f := range r.Files {
		r.Restored = r.Restored && f.Restored
	}
	if !r.Restored && len(failed) == 0 {
		failed = append(failed, ErrNotRestored)
	}
	return r, errors.Join(failed...)
}

// demonstrate runs a part, and returns why this host cannot show it, "" if it did.
func (o Options) demonstrate(ctx context.Context, capability string, r *Report) (why string, err error) {
	p := o.part(capability)
	if why := p.lacks(); why != "" {
		return why, nil
	}
	why, err = p.show(ctx, r)
	return why, errors.Join(err, p.close())
}
