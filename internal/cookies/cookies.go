package cookies

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/coresched"
	"github.com/berth-project/berth/internal/driver/cookie"
	"github.com/berth-project/berth/internal/isolate"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
)

const (
	// lookFor is how long the threads of offline work are looked at in every round after its
	// groups changed; otherwise it is every lookEvery. What a thread forks has its cookie: only
	// what a runtime starts in a group joins it without.
	lookFor   = 10 * time.Second
	lookEvery = 5 * time.Second
	// againAfter is when it is tried again after no cookie could be given.
	againAfter = time.Minute
	// budget is how many threads are looked at in a round: about ten milliseconds.
	budget = 16384
	// starts is of how many threads without the cookie it is asked in a round when they were started: about as long,
	// since that is a file of each.
	starts = 512
)

// Host opens groups and lists their threads. *cgroup.Host is one.
type Host interface {
	cookie.Lister
	cgroup.Opener
}

// Offline has the threads of offline work share one core scheduling cookie, and measures how
// long new ones go without. It is for one goroutine at a time.
type Offline struct {
	host Host
	// touch has the next pass look at a group.
	touch func(group string)

	// source is where it is asked for, "" for nowhere, and reason why it is not done then.
	// needless says that it need not be.
	source, reason string
	needless       bool

	held   *coresched.Held
	groups []string         // of offline work, as of the last round
	found  map[string]found // at the last look, by group
	joins  isolate.Joins
	// sweep is the look at all of them that is under way, and left what is left of the round's budget.
	sweep sweep
	left  int
	// start returns when a thread was started, and starts is how often it may be asked in this round.
	start  func(tid int) (uint64, error)
	starts int
	// until is when looks become rare, next when the next one is due.
	until, next time.Duration
	// failure is why no cookie could be given, until it is tried again a minute later.
	failure string
	again   time.Duration
}

// found is what was found out about a group: how many of its threads have the cookie, whether others have not, and
// why it could not be looked at.
type found struct {
	have   int
	lacks  bool
	unseen string
}

// New returns Offline without a cookie. touch has the next pass look at a group.
func New(host Host, touch func(group string)) Offline {
	return Offline{host: host, touch: touch, start: kernel.ThreadStart}
}

// Drop lets the cookie go: who has it keeps it until that is put back.
func (c *Offline) Drop() {
	if c.held != nil {
		c.held.Close()
	}
	c.held, c.groups, c.found, c.joins, c.sweep = nil, nil, nil, isolate.Joins{}, sweep{}
}

// Decide returns what has these groups share a cookie, or nothing where they do not. source is
// where that is asked for, "" for nowhere.
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
			Writers: plan.Writers{PutsBack: true}, // a process that joins has none
		})
	}
	return all
}

// Problem says why a group has none although it is asked for, "" where all have one, or need not.
func (c *Offline) Problem() string {
	why := cmp.Or(c.reason, c.unseen())
	if why == "" || c.needless {
		return ""
	}
	return "core scheduling: " + why
}

// share looks for threads without the cookie. It returns why none can be given.
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
	for _, group := range c.lacking() {
		c.touch(group)
	}
	return ""
}

// look goes on with the sweep, past groups that cannot be looked at: a thread that may not be asked
// (ptrace_may_access in sched_core_share_pid, kernel/sched/core_sched.c) costs the others no cookie. It returns why
// where none of the groups can. A group of too many threads is no such reason: others may get the cookie yet.
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

// unseen says why a group cannot be looked at, "" where all can.
func (c *Offline) unseen() string {
	for _, group := range c.groups {
		if why := c.found[group].unseen; why != "" {
			return "group " + group + ": " + why
		}
	}
	return ""
}

// change takes the groups of offline work. What is known of those that stay stands.
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

// list implements looks. A group that has too many threads for the driver is not looked at: who is in it would have
// the agent do nothing else.
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

// lacking returns the groups of which some threads had no cookie at the last look.
func (c *Offline) lacking() []string {
	return slices.DeleteFunc(slices.Clone(c.groups), func(group string) bool { return !c.found[group].lacks })
}

// joiners returns those of the threads that are still there, and all of which that is not asked any more.
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

// tick is the unit in which the kernel says when a thread was started, on every architecture that
// Berth is built for.
const tick = time.Second / 100

// Saw looks again at the groups of which threads had no cookie: a pass has just given it to them.
func (c *Offline) Saw() {
	if c.held == nil {
		return
	}
	again, err := sweep{left: c.lacking()}, error(nil)
	if c.left, err = again.step(c.left, c); err != nil {
		c.next = 0 // the next round says what is wrong
	}
}

// Isolates says that all offline threads have the cookie.
func (c *Offline) Isolates() bool {
	return c.held != nil && len(c.found) == len(c.groups) && len(c.lacking()) == 0 && c.unseen() == ""
}

// Status is what is true of the cookie of offline threads.
type Status struct {
	// Cookie is what the kernel shows of it, empty where there is none, and Reason why not.
	Cookie string `json:"cookie,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Groups are those of offline work, Threads how many have it, and Lacking how many have
	// not yet.
	Groups  int `json:"groups"`
	Threads int `json:"threads"`
	Lacking int `json:"lacking"`
	// Gap is for how long a thread had none at most, in seconds, since there is one.
	Gap float64 `json:"longestGapSeconds"`
	// Policy is where it is asked for.
	Policy string `json:"policySource"`
}

// Status says what is true of it, nil where it is not asked for.
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

// Line is what status says of it.
func (s *Status) Line() string {
	if s.Cookie == "" {
		return fmt.Sprintf("core scheduling as without Berth: %s; asked for by %s", s.Reason, s.Policy)
	}
	return fmt.Sprintf("core scheduling: %d threads of %d offline groups share a cookie, %d have none yet; a new one had none for at most %.2f s",
		s.Threads, s.Groups, s.Lacking, s.Gap)
}

// Of says what a group of offline work has of it, "" for nothing.
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
