package cookie

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/coresched"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/hostwrite"
	"github.com/berth-project/berth/internal/plan"
)

// Driver is the kind of targets of this package.
const Driver plan.Driver = "cookie"

// The values of a target: which threads of the group have the cookie.
const (
	None plan.Value = "none"
	Some plan.Value = "some"
	All  plan.Value = "all"
)

// ErrUnseen says that threads of the group cannot be looked at from here.
var ErrUnseen = errors.New("core scheduling needs hostPID and CAP_SYS_PTRACE, which the agent of deploy/hostpid has")

// knob is what the knob of a target begins with; the cookie follows.
const knob = "cookie "

const (
	// rounds bounds how often the threads are listed: those that one makes before its turn have what
	// it had.
	rounds = 10
	// Most is how many threads get the cookie in one write, and how many looks at threads it takes
	// beside the first of each: about 50 ms, in which the agent does nothing else.
	Most = 65536
)

// ErrTooMany says that a group has so many threads that giving them a cookie would hold the agent up.
// Who is in a group chooses how many there are.
var ErrTooMany = fmt.Errorf("more than %d threads", Most)

// Target is a cookie of the group at a path, as cgroup.Group.Path returns it.
func Target(group string, c coresched.Cookie) plan.Target {
	return plan.Target{Driver: Driver, Object: group, Knob: knob + c.String()}
}

// Values returns what the kind says of its values without a host.
func Values() plan.Kinds { return plan.Kinds{Driver: {Mangled: joined}} }

// joined says that a process joined the group after Berth gave all the cookie: some have it then.
func joined(_ plan.Target, v, recorded plan.Value) bool { return v == Some && recorded == All }

// Kinds returns the kind of target for the groups of a host.
func Kinds(host *cgroup.Host) apply.Kinds {
	return apply.Kinds{Driver: {Kind: Values()[Driver], Opener: opener{host}}}
}

type opener struct{ host *cgroup.Host }

// Open returns a driver for one call.
func (o opener) Open(call apply.Call) apply.Driver { return &cookies{host: o.host, call: call} }

// cookies is the driver.
type cookies struct {
	host *cgroup.Host
	call apply.Call
}

// Read returns which threads of the group have the cookie, and the identity of the group.
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

// in opens the group of a target.
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
	id, err := g.ID(cgroup.CPU)
	if err != nil {
		return "", classify(err)
	}
	return plan.Identity(id.String()), classify(f(g, c))
}

// Threads are those of a group that have a cookie, and those that have none at all.
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

// Look finds out which threads of a group have a cookie. The error is ErrUnseen where they cannot
// be looked at, or that of the group.
func Look(host Lister, g *cgroup.Group, c coresched.Cookie) (now Threads, err error) {
	tids, err := List(host, g)
	if err != nil {
		return now, err
	}
	return now, now.See(tids, c)
}

// List returns the threads of a group. The error is ErrUnseen where one has no id here, or that of the
// group.
func List(host Lister, g *cgroup.Group) ([]int, error) {
	tids, foreign, err := host.ThreadIDs(g)
	if err == nil && foreign > 0 {
		err = fmt.Errorf("threads of %s have no id in this pid namespace: %w", g.Path(), ErrUnseen)
	}
	return tids, err
}

// Seen is how many threads were looked at that are there and have this cookie or none.
func (t *Threads) Seen() int { return len(t.Have) + len(t.Lack) }

// See adds those of some threads that have a cookie, and those that have none. The error is ErrUnseen
// where they cannot be looked at.
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

// Write has all threads of the group have the cookie, or none of them.
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
	all     bool // has all threads have it, otherwise none
	changed bool
}

// run makes the write, and says what is in effect.
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

// refuses is ErrTooMany where a group has too many threads to give them the cookie. It is taken from any
// number.
func (w *write) refuses(threads int) error {
	if w.all && threads > Most {
		return fmt.Errorf("%w: %s has %d", ErrTooMany, w.group.Path(), threads)
	}
	return nil
}

// todo returns the threads that are to change.
func (w *write) todo(now Threads) []int {
	if w.all {
		return now.Lack
	}
	return now.Have
}

// rounds gives the threads that are to change the cookie of the calling thread, until there are
// none. One that is not listed in the group afterwards left it, or ended before its turn and gave
// its id to another: it gets back what it had.
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

// takeBack takes the cookie from those of the given threads that the group does not have.
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
	// Best effort: what cannot be changed is as it is until the thread ends.
	_ = coresched.With(0, func() error {
		for _, tid := range stray {
			_ = hostwrite.Cookie(tid)
		}
		return nil
	})
}

// classify adds what an error means for a group.
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
