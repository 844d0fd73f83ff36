package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// drained is how often the context switches are read: the kernel has room for 100,000 per CPU on small machines, and
// for 3,000 on the largest machines.
const drained = 100 * time.Millisecond

// scheduler is what the kernel reports about when server and hogs ran.
type scheduler struct {
	// switches is nil if the kernel does not record them.
	switches *kernel.Switches
	cores    []topology.Core
}

// watchScheduler records the context switches of all CPUs if possible, and returns the text of CoResidency.
func watchScheduler(root *hostfs.Root) (scheduler, string, error) {
	top, err := topology.Discover(root.FS())
	if err != nil {
		return scheduler{}, "", fmt.Errorf("bench interference: %w", err)
	}
	s, known := scheduler{cores: top.Cores}, "by the kernel's records of context switches"
	if s.switches, err = kernel.RecordSwitches(top.Online); err != nil { // the other figures do not need it
		known = unknown + err.Error()
	}
	return s, known, nil
}

func (s scheduler) close() error {
	if s.switches == nil {
		return nil
	}
	return s.switches.Close()
}

// unknown begins the text of CoResidency if the kernel does not record switches.
const unknown = "unknown: "

// errLost reports that the figure of an arm would cover only a part of it.
var errLost = errors.New("records of context switches were lost")

// beside runs a load. It returns the part of the server's running time in which a hog ran on the same core, or nil if
// that is unknown.
func (s scheduler) beside(ctx context.Context, server, hogs int, load func() error) (*float64, error) {
	if s.switches == nil {
		return nil, load()
	}
	s.switches.Read()
	t := newTogether(s.cores, server, hogs)
	look := func() error {
		until := kernel.Monotonic()
		all, lost := s.switches.Read()
		t.take(all, until)
		if lost > 0 {
			return fmt.Errorf("%w: %d", errLost, lost)
		}
		return nil
	}
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	go func() { looked <- every(looking, drained, look) }()
	failed := load()
	stop()
	err := errors.Join(<-looked, look())
	if failed != nil || err != nil && !errors.Is(err, errLost) {
		return nil, errors.Join(failed, err)
	}
	if err == nil && t.ran > 0 {
		return new(float64(t.beside) / float64(t.ran)), nil
	}
	return nil, nil //nolint:nilnil // an arm without the figure
}

// together adds up how long a server ran, and how long a hog ran on the same core at the same time.
type together struct {
	server, hogs int
	core         map[int]cpuset.Set // by CPU
	running      map[int]int        // the process on each CPU, if known
	at           time.Duration
	// later are switches after at: some CPUs' switches of that time are not read yet.
	later       []kernel.Switch
	ran, beside time.Duration
}

func newTogether(cores []topology.Core, server, hogs int) *together {
	t := &together{server: server, hogs: hogs, core: map[int]cpuset.Set{}, running: map[int]int{}, at: kernel.Monotonic()}
	for _, c := range cores {
		for cpu := range c.CPUs.All() {
			t.core[cpu] = c.CPUs
		}
	}
	return t
}

// take adds the switches up to a time, until which all CPUs' switches are known. It retains later switches for the next
// call.
func (t *together) take(all []kernel.Switch, until time.Duration) {
	for _, one := range all {
		if _, known := t.running[one.CPU]; !known {
			t.running[one.CPU] = one.Before
		}
	}
	all = append(t.later, all...)
	slices.SortStableFunc(all, func(a, b kernel.Switch) int { return cmp.Compare(a.At, b.At) })
	for len(all) > 0 && all[0].At <= until {
		t.pass(all[0].At)
		t.running[all[0].CPU] = all[0].Now
		all = all[1:]
	}
	t.pass(until)
	t.later = all
}

// pass adds the time up to now.
func (t *together) pass(now time.Duration) {
	passed := max(0, now-t.at)
	t.at += passed
	for cpu, process := range t.running {
		if process != t.server {
			continue
		}
		t.ran += passed
		for sibling := range t.core[cpu].Remove(cpu).All() {
			if t.running[sibling] == t.hogs && t.hogs != 0 {
				t.beside += passed
				break
			}
		}
	}
}
