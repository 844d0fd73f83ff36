package cookie

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/hostwrite"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/hostfs"
)

// Driver is the kind of the targets of this package.
const Driver plan.Driver = "cookie"

// The values of a target: how many threads of the group have the cookie.
const (
	None plan.Value = "none"
	Some plan.Value = "some"
	All  plan.Value = "all"
)

// ErrUnseen says that the cookies of the group's threads cannot be read from here.
var ErrUnseen = errors.New("core scheduling needs hostPID and CAP_SYS_PTRACE, which the agent of deploy/hostpid has")

// knob is the prefix of a target's knob; the cookie follows.
const knob = "cookie "

const (
	// rounds limits how often the threads are listed: a thread that is created before its parent's turn inherits what
	// the parent had.
	rounds = 10
	// Most limits one write: the threads that get the cookie, and the repeated checks of threads. The limit takes
	// about 50 ms, in which the agent does nothing else.
	Most = 65536
)

// ErrTooMany says that a group has so many threads that giving them a cookie would delay the agent. The workload
// decides how many threads there are.
var ErrTooMany = fmt.Errorf("more than %d threads", Most)

// Target returns the target of a cookie of the group at a path, as cgroup.Group.Path returns it.
func Target(group string, c coresched.Cookie) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: knob + c.String()}
}

// Values returns what the kind says about its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Mangled: joined}} }

// joined reports whether only some threads have the cookie that Berth gave to all: a process joined the group later.
func joined(_ plan.Target, v, recorded plan.Value) bool { return v == Some && recorded == All }

// Kinds returns the kind of target for the groups of a host.
func Kinds(host *cgroup.Host) apply.Kinds {
	return apply.Of(Values(), func(call apply.Call) apply.Driver { return &cookies{host, call} })
}

type cookies struct {
	host *cgroup.Host
	call apply.Call
}

// Read returns how many threads of the group have the cookie, and the identity of the group.
func (d *cookies) Read(t plan.Target) (plan.Value, plan.Identity, error) {
	var now Threads
	id, err := d.in(t, func(g *cgroup.Group, c coresched.Cookie) (err error) {
		now, err = Look(d.host, g, c)
		return err
	})
	if err != nil {
		return "", id, err
	}
	return now.value(), id, nil
}

// in opens the group of a target and calls f.
func (d *cookies) in(t plan.Target, f func(*cgroup.Group, coresched.Cookie) error) (plan.Identity, error) {
	c, err := coresched.Parse(strings.TrimPrefix(t.Knob, knob))
	if err != nil {
		return "", err
	}
	g, err := d.host.Group(t.Object)
	if err != nil {
		return "", classify(err)
	}
	defer g.Close()
	id, err := cgroupfile.IdentityOf(g, t)
	if err != nil {
		return "", classify(err)
	}
	return id, classify(f(g, c))
}

// Threads are the threads of a group that have a certain cookie, and the threads that have no cookie at all.
type Threads struct{ Have, Lack []int }

func (t Threads) size() int { return len(t.Have) + len(t.Lack) }

func (t Threads) value() plan.Value {
	switch {
	case len(t.Lack) == 0:
		return All
	case len(t.Have) == 0:
		return None
	}
	return Some
}

// Lister lists the threads of groups. *cgroup.Host is one.
type Lister interface {
	ThreadIDs(g *cgroup.Group) (tids []int, foreign int, err error)
}

// Look finds the threads of a group that have a cookie. The error is ErrUnseen if their cookies cannot be read, or the
// error of the group.
func Look(host Lister, g *cgroup.Group, c coresched.Cookie) (now Threads, err error) {
	tids, err := List(host, g)
	if err != nil {
		return now, err
	}
	return now, now.See(tids, c)
}

// List returns the threads of a group. The error is ErrUnseen if a thread has no id in this pid namespace, or the
// error of the group.
func List(host Lister, g *cgroup.Group) ([]int, error) {
	tids, foreign, err := host.ThreadIDs(g)
	if err == nil && foreign > 0 {
		err = fmt.Errorf("threads of %s have no id in this pid namespace: %w", g.Path(), ErrUnseen)
	}
	return tids, err
}

// Seen returns how many of the checked threads exist and have this cookie or none.
func (t *Threads) Seen() int { return len(t.Have) + len(t.Lack) }

// See adds the threads that have the cookie c, and the threads that have no cookie. The error is ErrUnseen if a
// thread's cookie cannot be read.
func (t *Threads) See(tids []int, c coresched.Cookie) error {
	for _, tid := range tids {
		has, err := coresched.Of(tid)
		switch {
		case errors.Is(err, coresched.ErrGone):
		case err != nil:
			return classify(err)
		case has == c:
			t.Have = append(t.Have, tid)
		case has == 0:
			t.Lack = append(t.Lack, tid)
		}
	}
	return nil
}

// Write gives the cookie to all threads of the group, or removes it from all of them.
func (d *cookies) Write(c plan.Change) (effective plan.Value, err error) {
	_, err = d.in(c.Target, func(g *cgroup.Group, id coresched.Cookie) (err error) {
		w := write{cookies: d, group: g, id: id, all: c.Value == All}
		effective, err = w.run()
		if w.changed {
			d.call.Written(c.Target)
		}
		return err
	})
	return effective, err
}

// write is one write under way.
type write struct {
	*cookies

	group   *cgroup.Group
	id      coresched.Cookie
	all     bool // gives the cookie to all threads, otherwise removes it
	changed bool
}

// run makes the write and returns the effective value.
func (w *write) run() (plan.Value, error) {
	tids, err := List(w.host, w.group)
	if err == nil {
		err = w.refuses(len(tids))
	}
	if err != nil {
		return "", err
	}
	var now Threads
	if err := now.See(tids, w.id); err != nil {
		return "", err
	}
	if todo := w.todo(now); len(todo) > 0 {
		gives := w.id
		if !w.all {
			gives = 0
		}
		err = coresched.With(gives, func() (err error) {
			now, err = w.rounds(now)
			return err
		})
	}
	switch {
	case err != nil:
		return "", err
	case len(w.todo(now)) > 0:
		return now.value(), fmt.Errorf("threads are made faster than they get a cookie: %w", apply.ErrNotEffective)
	case w.all:
		return All, nil
	}
	return None, nil
}

// refuses returns ErrTooMany if a group has too many threads to give them the cookie. Removing it has no limit.
func (w *write) refuses(threads int) error {
	if w.all && threads > Most {
		return fmt.Errorf("%w: %s has %d", ErrTooMany, w.group.Path(), threads)
	}
	return nil
}

// todo returns the threads that still have to change.
func (w *write) todo(now Threads) []int {
	if w.all {
		return now.Lack
	}
	return now.Have
}

// rounds gives the threads that have to change the cookie of the calling thread, until none is left. A thread that is
// no longer listed in the group has left it, or ended before its turn and passed on its id. It gets back what it had.
func (w *write) rounds(now Threads) (Threads, error) {
	for round, looks := 0, 0; round < rounds && (looks < Most || !w.all); round, looks = round+1, looks+now.size() {
		todo := w.todo(now)
		if len(todo) == 0 {
			break
		}
		if err := w.give(todo); err != nil {
			return now, err
		}
		after, err := Look(w.host, w.group, w.id)
		if err != nil {
			return now, err
		}
		if now = after; w.all {
			w.takeBack(todo, now.Have)
		}
	}
	return now, nil
}

// give gives threads the cookie of the calling thread.
func (w *write) give(todo []int) error {
	for _, tid := range todo {
		err := coresched.Classify(hostwrite.Cookie(tid))
		if err != nil && !errors.Is(err, coresched.ErrGone) {
			return err
		}
		w.changed = w.changed || err == nil
	}
	return nil
}

// takeBack removes the cookie from the given threads that are not listed in the group.
func (w *write) takeBack(given, listed []int) {
	has := make(map[int]bool, len(listed))
	for _, tid := range listed {
		has[tid] = true
	}
	stray := slices.DeleteFunc(slices.Clone(given), func(tid int) bool {
		if has[tid] {
			return true
		}
		id, err := coresched.Of(tid)
		return err != nil || id != w.id
	})
	if len(stray) == 0 {
		return
	}
	// Best effort: a thread that cannot be changed has the cookie until it ends.
	_ = coresched.With(0, func() error {
		for _, tid := range stray {
			_ = hostwrite.Cookie(tid)
		}
		return nil
	})
}

// classify wraps an error in the error that it means for a group.
func classify(err error) error {
	switch {
	case errors.Is(err, cgroup.ErrNoGroup), errors.Is(err, hostfs.ErrGone):
		return fmt.Errorf("%w: %w", apply.ErrGone, err)
	case errors.Is(err, coresched.ErrNotPermitted):
		return fmt.Errorf("%w: %w", ErrUnseen, err)
	case errors.Is(err, coresched.ErrNoSiblings):
		return fmt.Errorf("%w: %w", apply.ErrNotInForce, err)
	}
	return err
}
