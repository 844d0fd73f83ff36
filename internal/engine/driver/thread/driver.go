package thread

import (
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/kernel"
)

// mostThreads limits how many threads of a group are journaled: the workload decides how many there are.
const mostThreads = 16384

// rounds limits how often the threads are listed: a thread that is created before its parent's turn inherits the
// parent's old setting.
const rounds = 10

// Slice returns the slice of a thread that has no slice of its own. Like kernel.DefaultThreadSlice, it returns 0 if
// the kernel has no slices of single threads.
type Slice func() (time.Duration, error)

// Kinds returns the kind of target for the groups of a host.
func Kinds(host *cgroup.Host, base Slice) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver { return &threads{host, base, call} })
}

type threads struct {
	host *cgroup.Host
	base Slice
	call apply.Call
}

// Read returns how many threads of the group have what the knob names, and the identity of the group.
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

	// group is nil if the group is gone, or if another group has its name.
	group *cgroup.Group
	id    plan.Identity
	at    plan.Target
	aim   aim
	// slice is the slice of a thread that has no slice of its own. It is read only for a slice target, or before a
	// policy is given. Restoring a policy does without it: the read may wait while threads of that policy use all
	// CPUs.
	slice time.Duration
	asked bool
	// done has the ids of the threads that were restored.
	done map[int]bool
}

// job returns the work on a target, without its group.
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

// ask reads the slice of a thread that has no slice of its own, once per job.
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

// in opens the group of a target and calls f.
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
	if j.id, err = cgroupfile.IdentityOf(g, t); err != nil {
		return "", classify(err)
	}
	j.group = g
	return j.id, classify(f(j))
}

// Survives implements apply.Survivor: recorded threads may live on in other groups.
func (d *threads) Survives(t plan.Target) (plan.Value, bool, error) {
	j, err := d.job(t)
	if err != nil {
		return "", false, err
	}
	now, err := j.look()
	return All, len(now.given) > 0, err
}

// Write gives all threads of the group what the knob names, or gives the threads back what they had.
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

// note journals the setting of threads that are not on record. The first time it journals all threads. Later it
// journals only threads that lack what the knob names: all other threads inherited that from a recorded thread.
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

// give gives every thread what the knob names, until no thread lacks it.
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

// Follow implements apply.Follower: threads that inherited nothing, because they were moved into the group or because
// of SCHED_RESET_ON_FORK, get what the knob names. Threads on record are left alone, and so are threads that another
// program gave a policy or slice.
func (d *threads) Follow(t plan.Target, id plan.Identity) (given int, err error) {
	_, err = d.in(t, func(j *job) (err error) {
		if j.id != id {
			return fmt.Errorf("%s: %w: it is %s, the record is of %s", t.Object, apply.ErrGone, j.id, id)
		}
		given, err = j.follow()
		return err
	})
	return given, err
}

// follow gives every thread that came since what the knob names, until no such thread lacks it, and counts them. If no
// thread is on record, because none lacked it until now, all threads with the default came since.
func (j *job) follow() (given int, err error) {
	if err := j.ask(); err != nil {
		return 0, err
	}
	for range rounds {
		threads, journaled := j.recorded()
		now, err := j.look()
		if err != nil || !journaled {
			return given, err
		}
		now.lack = j.since(threads, now.lack)
		if len(now.lack) == 0 {
			return given, nil
		}
		if err := j.note(now); err != nil {
			return given, err
		}
		for _, t := range now.lack {
			if err := j.set(t, j.aim.with(t.now, j.slice)); err != nil {
				return given, err
			}
			given++
		}
	}
	return given, nil // the next call goes on
}

// since returns the threads that are on no record and have the default.
func (j *job) since(recorded []journal.Thread, lack []one) []one {
	return slices.DeleteFunc(lack, func(t one) bool {
		return slices.ContainsFunc(recorded, t.isOf) || !j.aim.isUnset(t.now, j.slice)
	})
}

// Lacks implements apply.Follower.
func (d *threads) Lacks(t plan.Target) (lacks bool, err error) {
	_, err = d.in(t, func(j *job) error {
		if err := j.ask(); err != nil {
			return err
		}
		threads, _ := j.recorded()
		now, err := j.look()
		lacks = len(j.since(threads, now.lack)) > 0
		return err
	})
	return lacks, err
}

// giveBack restores every thread to what it had, until no thread has what Berth gave it. Threads that another writer
// changed since stay as they are, and giveBack reports them.
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

// set changes one thread and reads back the result. It skips a thread that ended, even if another thread has its id
// now.
func (j *job) set(t one, to kernel.Scheduled) error {
	if t.isGone() {
		return nil
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
	case j.aim.same(has(now, j.slice), has(to, j.slice)), t.isGone():
		return nil
	default:
		return fmt.Errorf("thread %d: gave it %s, the kernel has %s: %w", t.id, j.aim.named(has(to, j.slice)), j.aim.named(has(now, j.slice)), apply.ErrNotEffective)
	}
}

// classify wraps an error in apply.ErrGone if it means that the group is gone.
func classify(err error) error {
	if errors.Is(err, cgroup.ErrNoGroup) || errors.Is(err, hostfs.ErrGone) {
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	}
	return err
}
