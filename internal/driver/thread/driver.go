package thread

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
)

// mostThreads bounds how many threads of a group are noted: whoever is in the group chooses how
// many there are.
const mostThreads = 16384

// rounds bounds how often the threads are listed: those that one makes before its turn have what
// it had.
const rounds = 10

// Slice returns the slice of a thread that has none of its own, 0 where the kernel has no slices of single
// threads, as kernel.DefaultThreadSlice does.
type Slice func() (time.Duration, error)

// Kinds returns the kind of target for the groups of a host.
func Kinds(host *cgroup.Host, base Slice) apply.Kinds {
	return apply.Kinds{Driver: {Kind: Values()[Driver], Opener: &opener{host, base}}}
}

type opener struct {
	host *cgroup.Host
	base Slice
}

// Open returns a driver for one call.
func (o *opener) Open(call apply.Call) apply.Driver { return &threads{opener: o, call: call} }

// threads is the driver.
type threads struct {
	*opener

	call apply.Call
}

// Read returns which threads of the group have what the knob names, and the identity of the group.
func (d *threads) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	var v plan.Value
	id, err := d.in(t, func(j *job) error {
		now, err := j.look()
		if err == nil {
			v = now.value(j.aim, j.slice)
		}
		return err
	})
	return v, id, err
}

// job is the work on one target during one call.
type job struct {
	*threads

	// group is nil where it is gone, or another one has its name by now.
	group *cgroup.Group
	id    plan.Identity
	at    plan.Target
	aim   aim
	// slice is that of a thread that has none of its own. It is asked for where it counts: for a slice, or before a
	// policy is given. The way back of a policy goes without it, since who asks may wait where threads of that very
	// policy have all CPUs.
	slice time.Duration
	asked bool
	// done are the threads that were given back what they had, by their ids.
	done map[int]bool
}

// job begins the work on a target without its group.
func (d *threads) job(t plan.Target) (*job, error) {
	aim, err := aimOf(t)
	if err != nil {
		return nil, err
	}
	j := &job{threads: d, at: t, aim: aim, done: map[int]bool{}}
	if aim.policy != nil {
		return j, nil
	}
	if err := j.ask(); err != nil {
		return nil, err
	}
	if j.slice == 0 {
		return nil, fmt.Errorf("slices of single threads, which Linux 6.12 and newer have: %w", kernel.ErrNotSupported)
	}
	return j, nil
}

// ask finds out the slice of a thread that has none of its own.
func (j *job) ask() (err error) {
	if j.asked {
		return nil
	}
	if j.slice, err = j.base(); err != nil {
		return err
	}
	j.asked = true
	return nil
}

// in opens the group of a target.
func (d *threads) in(t plan.Target, f func(*job) error) (plan.Identity, error) {
	j, err := d.job(t)
	if err != nil {
		return "", err
	}
	g, err := d.host.Group(t.Object)
	if err != nil {
		return "", classify(err)
	}
	defer g.Close()
	id, err := g.ID(cgroup.CPU)
	if err != nil {
		return "", classify(err)
	}
	j.group, j.id = g, plan.Identity(id.String())
	return j.id, classify(f(j))
}

// Survives is apply.Survivor: threads on record live on in other groups.
func (d *threads) Survives(t plan.Target) (plan.Value, bool, error) {
	j, err := d.job(t)
	if err != nil {
		return "", false, err
	}
	now, err := j.look()
	return All, len(now.given) > 0, err
}

// Write has all threads of the group have what the knob names, or gives them back what they had.
func (d *threads) Write(c plan.Change) (effective plan.Value, err error) {
	_, err = d.in(c.Target, func(j *job) (err error) {
		switch {
		case j.id != c.ID:
			return fmt.Errorf("%s: %w: it is %s, the change is for %s", c.Object, apply.ErrGone, j.id, c.ID)
		case c.Value == All:
			effective, err = j.give()
		default:
			effective, err = j.giveBack()
		}
		return err
	})
	if c.Value == All || !errors.Is(err, apply.ErrGone) {
		return effective, err
	}
	gone, err := d.job(c.Target)
	if err != nil {
		return "", err
	}
	return gone.giveBack()
}

// note journals what threads have that are not on record: at first of all, then of those that were
// started since and have not what the knob names, for the others have it from a thread on record.
func (j *job) note(now groups) error {
	threads, journaled := j.recorded()
	if !journaled {
		return nil
	}
	todo := now.lack
	if len(threads) == 0 {
		todo = slices.Concat(now.lack, now.have)
	}
	threads = slices.Clone(threads)
	for _, t := range todo {
		if !slices.ContainsFunc(threads, t.isOf) {
			threads = append(threads, journal.Thread{TID: t.id, Start: t.start, Had: has(t.now, j.slice).String()})
		}
	}
	if len(threads) > mostThreads {
		return fmt.Errorf("%s: more than %d threads: %w", j.at.Object, mostThreads, apply.ErrRefused)
	}
	return j.call.KeepThreads(j.at, threads)
}

// give gives what the knob names to every thread that lacks it, until none does.
func (j *job) give() (plan.Value, error) {
	for range rounds {
		now, err := j.look()
		switch {
		case err != nil:
			return "", err
		case len(now.lack) == 0:
			return All, nil
		}
		err = j.ask()
		if err == nil {
			err = j.note(now)
		}
		if err != nil {
			return "", err
		}
		for _, t := range now.lack {
			if err := j.set(t, j.aim.with(t.now, j.slice)); err != nil {
				return "", err
			}
		}
	}
	return Some, fmt.Errorf("%s: threads are started faster than they are given a policy or slice: %w", j.at.Object, apply.ErrNotEffective)
}

// giveBack gives every thread that has what the knob names back what it had, until none has it that
// had another one. Those of which another writer decided meanwhile keep that, and are reported.
func (j *job) giveBack() (plan.Value, error) {
	for range rounds {
		now, err := j.look()
		switch {
		case err != nil:
			return "", err
		case len(now.given) == 0 && len(now.another) == 0:
			return None, nil
		case len(now.given) == 0:
			return now.value(j.aim, j.slice), fmt.Errorf("%s: %w, and keep it: %s: %w", j.at.Object, errAnother, now.others(j.aim, j.slice), apply.ErrChanged)
		}
		for _, t := range now.given {
			j.done[t.id] = true
			if err := j.set(t, j.aim.without(t.now, t.had)); err != nil {
				return "", err
			}
		}
	}
	return Some, fmt.Errorf("%s: threads are started faster than they are given back what they had: %w", j.at.Object, apply.ErrNotEffective)
}

// set changes one thread, and reads back what the kernel made of that. One that ended is passed over,
// also where another has its id by now.
func (j *job) set(t one, to kernel.Scheduled) error {
	if start, err := kernel.ThreadStart(t.id); err != nil || start != t.start {
		return nil //nolint:nilerr // it is gone
	}
	err := hostwrite.Scheduled(t.id, to)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return nil
	case errors.Is(err, syscall.EPERM):
		return fmt.Errorf("thread %d: %w: %w", t.id, apply.ErrRefused, kernel.WhyNotScheduled(to.Class, to.Priority, err))
	case err != nil:
		return fmt.Errorf("%w: %w", apply.ErrRefused, err)
	}
	j.call.Written(j.at)
	now, err := kernel.ThreadScheduled(t.id)
	switch {
	case errors.Is(err, syscall.ESRCH):
		return nil
	case err != nil:
		return err
	case !j.aim.same(has(now, j.slice), has(to, j.slice)):
		return fmt.Errorf("thread %d: gave it %s, the kernel has %s: %w", t.id, j.aim.named(has(to, j.slice)), j.aim.named(has(now, j.slice)), apply.ErrNotEffective)
	}
	return nil
}

// classify adds what an error means for a group.
func classify(err error) error {
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, hostfs.ErrGone) {
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	}
	return err
}
