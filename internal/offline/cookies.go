package offline

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability"
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
)

// Threads lists the threads of groups. *cgroup.Host is one.
type Threads interface {
	Group(path string, of ...cgroup.Controller) (*cgroup.Group, error)
	cookie.Lister
}

// cookies has the threads of offline work share one core scheduling cookie, and measures how
// long new ones go without.
type cookies struct {
	host  Threads
	touch func(group string)

	// source is where it is asked for, "" for nowhere, and reason why it is not done then.
	// needless says that it need not be.
	source, reason string
	needless       bool
	reported       string // the reason of which an event was reported

	held    *coresched.Held
	groups  []string       // of offline work, as of the last round
	threads map[string]int // how many have the cookie, by group
	lacking []string       // the groups of which some have not, at the last look
	joins   isolate.Joins
	// until is when looks become rare, next when the next one is due.
	until, next time.Duration
	// failure is why no cookie could be given, until it is tried again.
	failure string
	again   time.Duration
}

// drop lets the cookie go: who has it keeps it until that is put back.
func (c *cookies) drop() {
	if c.held != nil {
		c.held.Close()
	}
	c.held, c.groups, c.threads, c.lacking, c.joins = nil, nil, nil, nil, isolate.Joins{}
}

// decide has these groups share a cookie, or says why not. source is where that is asked for.
func (c *cookies) decide(now time.Duration, source string, groups []string, sharing isolate.Sharing) capability.Decision {
	c.source, c.reason, c.needless = source, "", false
	if source == "" || len(groups) == 0 {
		c.drop()
		return c.report(nil)
	}
	if c.reason, c.needless = sharing.Refused(); c.reason == "" {
		c.reason = c.tryToShare(now, groups)
	}
	if c.reason != "" {
		c.drop()
		return c.report(nil)
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
	return c.report(all)
}

// report adds the event about a reason that is new.
func (c *cookies) report(settings []plan.Desired) capability.Decision {
	d := capability.Decision{Settings: settings}
	text := c.reason
	if c.needless {
		text = ""
	}
	if text != c.reported && text != "" {
		d.Events = []capability.Event{{Reason: v1alpha1.EventIsolationLimited, Text: "core scheduling: " + text, Warning: true}}
	}
	c.reported = text
	return d
}

// tryToShare shares a cookie, once a minute where that fails.
func (c *cookies) tryToShare(now time.Duration, groups []string) (reason string) {
	if c.failure == "" || now >= c.again {
		c.failure, c.again = c.share(now, groups), now+probeEvery
	}
	return c.failure
}

// share looks for threads without the cookie. It returns why none can be given.
func (c *cookies) share(now time.Duration, groups []string) (reason string) {
	if c.held == nil {
		held, err := coresched.Hold()
		if err != nil {
			return err.Error()
		}
		c.held = held
	}
	if !slices.Equal(groups, c.groups) {
		c.groups, c.threads, c.until, c.next = slices.Clone(groups), map[string]int{}, now+lookFor, now
	}
	if now < c.next {
		return ""
	}
	if c.next = now + lookEvery; now < c.until {
		c.next = now
	}
	c.joins.Round(kernel.Boottime(), func(group string) bool { return slices.Contains(groups, group) })
	if err := c.look(groups); err != nil {
		return err.Error()
	}
	for _, group := range c.lacking {
		c.touch(group)
	}
	return ""
}

// look finds out which threads of groups have the cookie.
func (c *cookies) look(groups []string) error {
	c.lacking = nil
	for _, group := range groups {
		now, err := c.lookAt(group)
		if errors.Is(err, cgroup.ErrNoGroup) {
			continue // it has no threads
		}
		if err != nil {
			return err
		}
		joiners := make([]isolate.Joiner, 0, len(now.Lack))
		for _, tid := range now.Lack {
			if start, err := kernel.ThreadStart(tid); err == nil {
				joiners = append(joiners, isolate.Joiner{TID: tid, Start: time.Duration(start) * tick}) //nolint:gosec // since boot
			}
		}
		c.joins.See(kernel.Boottime(), group, joiners)
		if c.threads[group] = len(now.Have); len(joiners) > 0 {
			c.lacking = append(c.lacking, group)
		}
	}
	return nil
}

// tick is the unit in which the kernel says when a thread was started, on every architecture that
// Berth is built for.
const tick = time.Second / 100

func (c *cookies) lookAt(group string) (cookie.Threads, error) {
	g, err := c.host.Group(group)
	if err != nil {
		return cookie.Threads{}, err
	}
	defer g.Close()
	return cookie.Look(c.host, g, c.held.ID())
}

// saw looks again at the groups of which threads had no cookie: a pass has just given it to them.
func (c *cookies) saw() {
	if c.held == nil || len(c.lacking) == 0 {
		return
	}
	if err := c.look(c.lacking); err != nil {
		c.next = 0 // the next round says what is wrong
	}
}

// isolates says that all offline threads have the cookie.
func (c *cookies) isolates() bool { return c.held != nil && len(c.lacking) == 0 }

// Shared is what is true of the cookie of offline threads.
type Shared struct {
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

// outcome says what is true of it, nil where it is not asked for.
func (c *cookies) outcome() *Shared {
	if c.source == "" || c.held == nil && c.reason == "" {
		return nil
	}
	s := &Shared{Reason: c.reason, Policy: c.source}
	if c.held != nil {
		s.Cookie, s.Groups, s.Lacking, s.Gap = c.held.ID().String(), len(c.groups), c.joins.Lacking, c.joins.Longest.Seconds()
		for _, n := range c.threads {
			s.Threads += n
		}
	}
	return s
}

// line is what status says of it.
func (s *Shared) line() string {
	if s.Cookie == "" {
		return fmt.Sprintf("core scheduling as without Berth: %s; asked for by %s", s.Reason, s.Policy)
	}
	return fmt.Sprintf("core scheduling: %d threads of %d offline groups share a cookie, %d have none yet; a new one had none for at most %.2f s",
		s.Threads, s.Groups, s.Lacking, s.Gap)
}

// of says what a group of offline work has of it, "" for nothing.
func (c *cookies) of(group string) string {
	switch {
	case c.source == "" || group == "" || c.held == nil && c.reason == "":
		return ""
	case c.reason != "":
		return fmt.Sprintf("core scheduling as without Berth: %s; asked for by %s", c.reason, c.source)
	case slices.Contains(c.lacking, group):
		return fmt.Sprintf("core scheduling: %d threads have the cookie of offline work, others not yet, by %s", c.threads[group], c.source)
	}
	return fmt.Sprintf("core scheduling: %d threads have the cookie of offline work, and share no core with online ones, by %s", c.threads[group], c.source)
}
