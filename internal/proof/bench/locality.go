package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/localize/locality"
	"github.com/berth-project/berth/internal/capability/localize/mover"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// ErrMissing reports that this machine lacks what a benchmark needs.
var ErrMissing = errors.New("this machine lacks")

// LocalityOptions configures bench locality.
type LocalityOptions struct {
	Options

	Place Place
	// Root contains the topology of this machine, and the processes.
	Root *hostfs.Root
	// MiB is the memory of a loader.
	MiB int
	// Window is how long requests are measured before and after a pass under a limit; Limited is how long the limit
	// makes that pass.
	Window, Limited time.Duration
	// Redis is the load of bench locality --redis.
	Redis RedisLoad
}

// sides are the two nodes between which pages move.
type sides struct {
	nodes                 locality.Nodes
	local, remote         int
	localCPUs, remoteCPUs cpuset.Set
	// virtual is true if the processor reports a virtual machine.
	virtual bool
}

// open prepares a run. Without two nodes the error matches ErrMissing.
func (o *LocalityOptions) open() (s sides, err error) {
	top, err := topology.Discover(o.Root.FS())
	if err != nil {
		return s, fmt.Errorf("bench locality: %w", err)
	}
	if s.nodes, err = mover.Nodes(o.Root, top); err != nil {
		return s, fmt.Errorf("bench locality: %w", err)
	}
	cpus, err := o.Place.effective()
	if err != nil {
		return s, err
	}
	var fit locality.Nodes
	for _, n := range s.nodes {
		if n.Bytes > 0 && n.CPUs.Intersects(cpus) && (len(fit) == 0 || n.Tier == fit[0].Tier) {
			fit = append(fit, n)
		}
	}
	if len(fit) < 2 {
		return s, fmt.Errorf("%w a second NUMA node with CPUs and memory", ErrMissing)
	}
	s.local, s.localCPUs = fit[0].ID, fit[0].CPUs.Intersect(cpus)
	s.remote, s.remoteCPUs = fit[1].ID, fit[1].CPUs.Intersect(cpus)
	info, err := o.Root.ReadFile("proc/cpuinfo")
	if err != nil {
		return s, fmt.Errorf("bench locality: %w", err)
	}
	s.virtual = strings.Contains(string(info), " hypervisor")
	return s, o.Options.open("locality")
}

// start is a state in which a loader starts.
type start struct {
	percent int
	huge    bool
}

func (s start) String() string {
	if s.huge {
		return fmt.Sprintf("%d %% local, huge pages", s.percent)
	}
	return fmt.Sprintf("%d %% local", s.percent)
}

// starts returns the states of the document that Berth is measured by, a state with huge pages, and states of which
// all, half and few pages are remote.
func starts() []start {
	return []start{{MixedPercent, false}, {47, false}, {MixedPercent, true}, {0, false}, {50, false}, {95, false}}
}

// RunLocality measures all trials and returns the report. Everything it made is gone when it returns, also when ctx
// ends, which is an error. On a machine with one NUMA node the error matches ErrMissing.
func RunLocality(ctx context.Context, o LocalityOptions) (*LocalityReport, error) {
	s, err := o.open()
	if err != nil {
		return nil, err
	}
	r := &LocalityReport{Machine: o.Machine, Setup: LocalitySetup{
		MiB: o.MiB, Local: s.local, Remote: s.remote, LimitedSeconds: o.Limited.Seconds(), WindowSeconds: o.Window.Seconds(),
		Repetitions: o.Repetitions, Virtual: s.virtual, Quick: o.Quick,
	}}
	var windows []Repetition
	for i := range o.Repetitions {
		for _, from := range starts() {
			o.Progress(fmt.Sprintf("repetition %d of %d, pass and bare loop from %s", i+1, o.Repetitions, from))
			trial, err := o.speed(ctx, s, from)
			if err != nil {
				return nil, fmt.Errorf("from %s: %w", from, err)
			}
			r.Trials = append(r.Trials, trial)
		}
		o.Progress(fmt.Sprintf("repetition %d of %d, requests during a pass under a limit", i+1, o.Repetitions))
		limited, requests, err := o.limited(ctx, s, i)
		if err != nil {
			return nil, fmt.Errorf("pass under a limit: %w", err)
		}
		r.Limited, windows = append(r.Limited, limited), append(windows, requests)
	}
	r.summarize(windows)
	return r, WriteSummary(o.Out, r)
}

// samples returns the file for the requests of a loader. If the file is not to be kept, remove is its directory, which
// the caller removes.
func (o *LocalityOptions) samples(repetition int) (name, remove string, err error) {
	out := o.Out
	if out == "" {
		if out, err = os.MkdirTemp("", "berth-bench-"); err != nil {
			return "", "", fmt.Errorf("requests: %w", err)
		}
		remove = out
	}
	if out, err = filepath.Abs(out); err != nil {
		return "", remove, fmt.Errorf("requests: %w", err)
	}
	return filepath.Join(out, fmt.Sprintf("run%02d-requests.csv", repetition+1)), remove, nil
}
