package cookies

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/isolate"
	"github.com/berth-project/berth/internal/engine/driver/cookie"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/coresched"
	"github.com/berth-project/berth/internal/linux/kernel"
)

const (
	// The threads of offline work are checked in every round for lookFor after the groups changed, and every lookEvery
	// later. A forked thread inherits the cookie: only a process that a runtime starts in a group joins without it.
	lookFor   = 10 * time.Second
	lookEvery = 5 * time.Second
	// againAfter is the time until the next attempt after no cookie could be given.
	againAfter = time.Minute
	// budget is the number of threads that are checked in a round: about ten milliseconds.
	budget = 16384
	// starts limits how many start times of threads without the cookie are read in a round: also about ten
	// milliseconds, since each thread has its own file.
	starts = 512
)

// Host opens groups and lists their threads. *cgroup.Host is one.
type Host interface {
	cookie.Lister
	cgroup.Opener
}

// Offline gives all threads of offline work one core scheduling cookie, and measures how long new threads go without
// it. It is not safe for concurrent use.
type Offline struct {
	host Host
	// touched are groups with threads that lack the cookie, for the next pass to check.
	touched []string

	// source is the source of the policy that asks for the cookie, "" for none. reason says why there is no cookie
	// although a policy asks for it. needless is true if the node needs no cookie.
	source, reason string
	needless       bool

	held   *coresched.Held
	groups []string         // of offline work, as of the last round
	found  map[string]found // results of the last check, by group
	joins  isolate.Joins
	// sweep is the check of all groups that is under way, and left is the remaining budget of the round.
	sweep sweep
	left  int
	// start returns the start time of a thread, and starts is how often this round may still call it.
	start  func(tid int) (uint64, error)
	starts int
	// until is when checks become rare, and next is when the next check is due.
	until, next time.Duration
	// failure says why no cookie could be given, until the next attempt a minute later.
	failure string
	again   time.Duration
}

// found is the result for a group: how many threads have the cookie, whether other threads lack it, and why the group
// could not be checked.
type found struct {
	have   int
	lacks  bool
	unseen string
}

// New returns an Offline without a cookie.
func New(host Host) Offline {
	return Offline{host: host, start: kernel.ThreadStart}
}

// Drop releases the cookie. Threads that have the cookie retain it until the driver removes it.
func (c *Offline) Drop() {
	if c.held != nil {
		c.held.Close()
	}
	c.held, c.groups, c.found, c.joins, c.sweep = nil, nil, nil, isolate.Joins{}, sweep{}
}

// Decide returns the settings that give these groups a common cookie, or nil if they get none. source is the source of
// the policy that asks for it, "" for none.
func (c *Offline) Decide(now time.Duration, source string, groups []string, sharing isolate.Sharing) []plan.Desired {
	c.source, c.reason, c.needless = source, "", false
	if source == "" || len(groups) == 0 {
		c.Drop()
		return nil
	}
	if c.reason, c.needless = sharing.Refused(); c.reason == "" {
		if c.failure == "" || now >= c.again {
			c.failure, c.again = c.share(now, groups), now+againAfter
		}
		c.reason = c.failure
	}
	if c.reason != "" {
		c.Drop()
		return nil
	}
	all := make([]plan.Desired, 0, len(groups))
	for _, group := range groups {
		all = append(all, plan.Desired{
			Setting: plan.Setting{
				Target: cookie.Target(group, c.held.ID()), Value: cookie.All, Owner: plan.OwnerIsolate, Workload: group,
				Why: "offline threads share no core with online ones, by " + source,
			},
			Writers: plan.Writers{PutsBack: true}, // a process that joins has no cookie
		})
	}
	return all
}

// Problem says why a group has no cookie although a policy asks for it. It is "" if all groups have the cookie, or
// need none.
func (c *Offline) Problem() string {
	why := cmp.Or(c.reason, c.unseen())
	if why == "" || c.needless {
		return ""
	}
	return "core scheduling: " + why
}

// share looks for threads without the cookie. It returns why no cookie can be given, "" if it can.
func (c *Offline) share(now time.Duration, groups []string) (reason string) {
	if c.held == nil {
		held, err := coresched.Hold()
		if err != nil {
			return err.Error()
		}
		c.held = held
	}
	c.left, c.starts = budget, starts
	if !slices.Equal(groups, c.groups) {
		c.change(groups)
		c.until, c.next = now+lookFor, now
	}
	if len(c.sweep.left) == 0 {
		if now < c.next {
			return ""
		}
		if c.next = now + lookEvery; now < c.until {
			c.next = now
		}
		c.sweep.left = slices.Clone(groups)
		c.joins.Round(kernel.Boottime(), func(group string) bool { return slices.Contains(groups, group) })
	}
	if reason = c.look(c); reason != "" {
		return reason
	}
	c.touched = append(c.touched, c.lacking()...)
	return ""
}

// Touched returns the groups that the next pass must check, once: they have threads without the cookie.
func (c *Offline) Touched() []string {
	all := c.touched
	c.touched = nil
	return all
}

// look continues the sweep and skips groups that cannot be checked: one thread whose cookie may not be read
// (ptrace_may_access in sched_core_share_pid, kernel/sched/core_sched.c) must not cost the other groups the cookie. It
// returns a reason if no group can be checked, except if a group has too many threads: other groups may still get the
// cookie.
func (c *Offline) look(host looks) (reason string) {
	for {
		var err error
		if c.left, err = c.sweep.step(c.left, host); err == nil {
			return ""
		}
		group := c.sweep.skip()
		c.found[group] = found{have: c.found[group].have, unseen: err.Error()}
		if !errors.Is(err, cookie.ErrTooMany) && !slices.ContainsFunc(c.groups, func(group string) bool { return c.found[group].unseen == "" }) {
			return err.Error()
		}
	}
}

// unseen says why a group cannot be checked, "" if all groups can.
func (c *Offline) unseen() string {
	for _, group := range c.groups {
		if why := c.found[group].unseen; why != "" {
			return "group " + group + ": " + why
		}
	}
	return ""
}

// change sets the groups of offline work. It retains the results of groups that stay.
func (c *Offline) change(groups []string) {
	if len(c.sweep.left) > 0 {
		c.sweep.extend(c.groups, groups)
	}
	known := c.found
	c.groups, c.found = slices.Clone(groups), map[string]found{}
	for _, group := range groups {
		if f, is := known[group]; is {
			c.found[group] = f
		}
	}
}

// list implements looks. It refuses a group that has too many threads for the driver: a workload must not make the
// agent busy all the time.
func (c *Offline) list(group string) ([]int, error) {
	tids, err := cgroup.Peek(c.host, group, func(g *cgroup.Group) ([]int, error) { return cookie.List(c.host, g) })
	if errors.Is(err, cgroup.ErrNoGroup) {
		return nil, nil
	}
	if err == nil && len(tids) > cookie.Most {
		err = fmt.Errorf("%w: it has %d", cookie.ErrTooMany, len(tids))
	}
	return tids, err
}

// see implements looks.
func (c *Offline) see(tids []int, into *cookie.Threads) error { return into.See(tids, c.held.ID()) }

// seen implements looks.
func (c *Offline) seen(group string, now cookie.Threads) {
	lack := c.joiners(now.Lack)
	c.joins.See(kernel.Boottime(), group, lack)
	c.found[group] = found{have: len(now.Have), lacks: len(lack) > 0}
}

// lacking returns the groups of which some threads had no cookie at the last check.
func (c *Offline) lacking() []string {
	return slices.DeleteFunc(slices.Clone(c.groups), func(group string) bool { return !c.found[group].lacks })
}

// joiners returns the threads that still exist, with their start times. Once starts is used up, it returns the
// remaining threads without start times and without that check.
func (c *Offline) joiners(tids []int) []isolate.Joiner {
	all := make([]isolate.Joiner, 0, len(tids))
	for _, tid := range tids {
		one := isolate.Joiner{TID: tid}
		if c.starts > 0 {
			c.starts--
			start, err := c.start(tid)
			if err != nil {
				continue
			}
			one.Start = time.Duration(start) * tick //nolint:gosec // since boot
		}
		all = append(all, one)
	}
	return all
}

// tick is the unit of the kernel's thread start times, on every architecture that Berth is built for.
const tick = time.Second / 100

// Saw checks the groups again whose threads had no cookie: a pass has just given it to them.
func (c *Offline) Saw() {
	if c.held == nil {
		return
	}
	again, err := sweep{left: c.lacking()}, error(nil)
	if c.left, err = again.step(c.left, c); err != nil {
		c.next = 0 // the next round reports the error
	}
}

// Isolates reports whether all offline threads have the cookie.
func (c *Offline) Isolates() bool {
	return c.held != nil && len(c.found) == len(c.groups) && len(c.lacking()) == 0 && c.unseen() == ""
}

// Status describes the cookie of offline threads.
type Status struct {
	// Cookie is the cookie as the kernel shows it, empty if there is none. Reason says why there is none.
	Cookie string `json:"cookie,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Groups is the number of groups of offline work. Threads is the number of their threads that have the cookie, and
	// Lacking the number of threads that do not have it yet.
	Groups  int `json:"groups"`
	Threads int `json:"threads"`
	Lacking int `json:"lacking"`
	// Gap is the longest time in seconds that a thread went without the cookie, since there is a cookie.
	Gap float64 `json:"longestGapSeconds"`
	// Policy is the source of the policy that asks for the cookie.
	Policy string `json:"policySource"`
}

// Status returns the state of the cookie, nil if no policy asks for one.
func (c *Offline) Status() *Status {
	if c.source == "" || c.held == nil && c.reason == "" {
		return nil
	}
	s := &Status{Reason: c.reason, Policy: c.source}
	if c.held != nil {
		s.Cookie, s.Groups, s.Lacking, s.Gap = c.held.ID().String(), len(c.groups), c.joins.Lacking, c.joins.Longest.Seconds()
		for _, f := range c.found {
			s.Threads += f.have
		}
	}
	return s
}

// Line returns the line that the command status prints.
func (s *Status) Line() string {
	if s.Cookie == "" {
		return fmt.Sprintf("core scheduling as without Berth: %s; asked for by %s", s.Reason, s.Policy)
	}
	return fmt.Sprintf("core scheduling: %d threads of %d offline groups share a cookie, %d have none yet; a new one had none for at most %.2f s",
		s.Threads, s.Groups, s.Lacking, s.Gap)
}

// Of describes the cookie of a group of offline work, "" if there is nothing to say.
func (c *Offline) Of(group string) string {
	s, rest := c.Status(), "and share no core with online ones"
	switch {
	case s == nil || group == "":
		return ""
	case c.reason != "":
		return s.Line()
	case c.found[group].unseen != "":
		rest = "others cannot be looked at"
	case c.found[group].lacks:
		rest = "others not yet"
	}
	return fmt.Sprintf("core scheduling: %d threads have the cookie of offline work, %s, by %s", c.found[group].have, rest, c.source)
}
