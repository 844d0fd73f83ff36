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

// drained is how often the scheduler's events are read: the kernel has room for 20,000 switches with a wakeup per CPU on
// small machines, and for 700 on the largest machines.
const drained = 100 * time.Millisecond

// scheduler is what the kernel reports about when server and hogs ran.
type scheduler struct {
	cpus  cpuset.Set
	cores []topology.Core
	// switches and wakeups say what the kernel records.
	switches, wakeups bool
}

// The texts of CoResidency and Waiting if the kernel records the events. unknown begins these texts otherwise.
const (
	bySwitches = "by the kernel's records of context switches"
	byWakeups  = "by the kernel's records of context switches, wakeups and moves"
	unknown    = "unknown: "
)

// watchScheduler finds out which events of the scheduler the kernel records, and returns the texts of CoResidency and
// Waiting.
func watchScheduler(root *hostfs.Root) (s scheduler, coResidency, waiting string, err error) {
	top, err := topology.Discover(root.FS())
	if err != nil {
		return s, "", "", fmt.Errorf("bench interference: %w", err)
	}
	s = scheduler{cpus: top.Online, cores: top.Cores}
	recording, err := kernel.RecordSwitches(s.cpus)
	if err != nil {
		return s, unknown + err.Error(), unknown + err.Error(), nil //nolint:nilerr // the other figures do not need it
	}
	s.switches = true
	waiting = byWakeups
	if err := recording.RecordWakeups(); err != nil {
		waiting = unknown + err.Error()
	}
	s.wakeups = waiting == byWakeups
	if err := recording.Close(); err != nil {
		return s, "", "", fmt.Errorf("bench interference: %w", err)
	}
	return s, bySwitches, waiting, nil
}

// record starts the recording of an arm. Each arm has its own, so that no ring is full of events between two arms.
func (s scheduler) record() (*kernel.Switches, error) {
	recording, err := kernel.RecordSwitches(s.cpus)
	if err == nil && s.wakeups {
		if err = recording.RecordWakeups(); err != nil {
			err = errors.Join(err, recording.Close())
		}
	}
	if err != nil {
		return nil, fmt.Errorf("bench interference: %w", err)
	}
	return recording, nil
}

// resident is what the scheduler's events say about one arm. The figures are nil if unknown.
type resident struct {
	// together is the part of the server's running time in which a hog ran on the same core.
	together *float64
	behind   *behind
	// lost is the least number of events that were lost.
	lost uint64
}

// beside runs a load, and returns what the scheduler's events say about it.
func (s scheduler) beside(ctx context.Context, sides map[int]side, load func() error) (r resident, err error) {
	if !s.switches {
		return r, load()
	}
	recording, err := s.record()
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, recording.Close()) }()
	recording.Read() // from before all events were recorded
	began := kernel.Monotonic()
	t, lost := newScene(s.cores, sides, began), uint64(0)
	look := func() {
		until := kernel.Monotonic()
		all, missed := recording.Read()
		t.take(all, until)
		lost += missed
	}
	looking, stop := context.WithCancel(ctx)
	looked := make(chan error, 1)
	go func() { looked <- every(looking, drained, func() error { look(); return nil }) }()
	failed := load()
	stop()
	if err := errors.Join(failed, <-looked); err != nil {
		return r, err
	}
	look()
	return t.figures(t.at-began, s.wakeups, lost), nil
}

// figures returns the figures of a period. Without wakeups it is unknown behind whom threads wait. After a loss nothing
// is known: figures would cover a part of the period only.
func (t *scene) figures(period time.Duration, wakeups bool, lost uint64) resident {
	r := resident{lost: lost}
	if lost > 0 {
		return r
	}
	if t.ran > 0 {
		r.together = new(float64(t.beside) / float64(t.ran))
	}
	if wakeups {
		r.behind = new(t.waits.since(period))
	}
	return r
}

// scene follows which thread runs on each CPU, and adds up the figures of an arm.
type scene struct {
	together

	waits   waits
	running map[int]kernel.Task // by CPU, if known
	at      time.Duration
	// later are events after at: some CPUs' events of that time are not read yet.
	later []kernel.Event
}

func newScene(cores []topology.Core, sides map[int]side, now time.Duration) *scene {
	t := &scene{
		together: together{sides: sides, core: map[int]cpuset.Set{}},
		waits:    waits{sides: sides, waiting: map[int]*wait{}, processes: map[int]int{}, asleep: map[int]bool{}},
		running:  map[int]kernel.Task{}, at: now,
	}
	for _, c := range cores {
		for cpu := range c.CPUs.All() {
			t.core[cpu] = c.CPUs
		}
	}
	return t
}

// take adds the events up to a time, until which all CPUs' events are known. It retains later events for the next call.
func (t *scene) take(all []kernel.Event, until time.Duration) {
	for _, e := range all {
		if _, known := t.running[e.CPU]; !known && e.Kind == kernel.Switched {
			t.running[e.CPU] = e.Before
		}
	}
	all = append(t.later, all...)
	slices.SortStableFunc(all, func(a, b kernel.Event) int { return cmp.Compare(a.At, b.At) })
	for len(all) > 0 && all[0].At <= until {
		t.pass(all[0].At)
		if all[0].Kind == kernel.Switched {
			t.running[all[0].CPU] = all[0].Now
		}
		t.waits.happens(all[0], t.running)
		all = all[1:]
	}
	t.pass(until)
	t.later = all
}

// pass adds the time up to now.
func (t *scene) pass(now time.Duration) {
	passed := max(0, now-t.at)
	t.at += passed
	t.together.pass(passed, t.running)
	t.waits.pass(passed, t.running)
}

// together adds up how long a server ran, and how long a hog ran on the same core at the same time.
type together struct {
	sides       map[int]side
	core        map[int]cpuset.Set // by CPU
	ran, beside time.Duration
}

func (t *together) pass(passed time.Duration, running map[int]kernel.Task) {
	for cpu, task := range running {
		if t.sides[task.Process] != online {
			continue
		}
		t.ran += passed
		for sibling := range t.core[cpu].Remove(cpu).All() {
			if t.sides[running[sibling].Process] == offline {
				t.beside += passed
				break
			}
		}
	}
}
