package cookies

import (
	"slices"

	"github.com/berth-project/berth/internal/driver/cookie"
)

// sweep looks at all threads of groups, in as many steps as that takes: who is in a group chooses how
// many there are.
type sweep struct {
	left  []string // the groups that are still to be looked at
	under part     // of one of them, the rest is for the next step
}

// part is a group of which some threads were looked at.
type part struct {
	group string
	now   cookie.Threads
	rest  []int
}

// looks finds out what a sweep asks. A group that is gone has no threads.
type looks interface {
	list(group string) ([]int, error)
	see(tids []int, into *cookie.Threads) error
	seen(group string, now cookie.Threads)
}

// extend has the sweep look at groups that are new, first, and no more at those that are gone.
func (s *sweep) extend(before, now []string) {
	s.left = slices.DeleteFunc(s.left, func(group string) bool { return !slices.Contains(now, group) })
	fresh := slices.DeleteFunc(slices.Clone(now), func(group string) bool { return slices.Contains(before, group) })
	s.left = append(fresh, s.left...)
}

// step looks at no more threads than budget, and returns what is left of that. A group counts as one, too. A look that
// fails counts for what it cost until then, also below 0: who is in a group could have as many fail as there are.
func (s *sweep) step(budget int, host looks) (left int, err error) {
	for len(s.left) > 0 && budget > 0 {
		p, resumed, err := s.resume(host)
		if err != nil {
			return budget - len(p.rest) - 1, err
		}
		n, before := min(budget, len(p.rest)), p.now.Seen()
		if err := host.see(p.rest[:n], &p.now); err != nil {
			return budget - (p.now.Seen() - before) - 1, err
		}
		if budget, p.rest = budget-n-1, p.rest[n:]; len(p.rest) > 0 {
			s.under = p
			break
		}
		if err := s.finish(p, resumed, host); err != nil {
			return budget, err
		}
	}
	return budget, nil
}

// skip passes over the group at which a step ended, and returns it.
func (s *sweep) skip() (group string) {
	group, s.left, s.under = s.left[0], s.left[1:], part{}
	return group
}

// resume returns the first group that is left, as far as it was looked at in an earlier step.
func (s *sweep) resume(host looks) (p part, resumed bool, err error) {
	if s.under.group == s.left[0] {
		return s.under, true, nil
	}
	tids, err := host.list(s.left[0])
	return part{group: s.left[0], rest: tids}, false, err
}

// finish hands on what a group has.
func (s *sweep) finish(p part, resumed bool, host looks) error {
	if resumed {
		s.under = part{}
		if err := p.leave(host); err != nil {
			return err
		}
	}
	s.left = s.left[1:]
	host.seen(p.group, p.now)
	return nil
}

// leave takes out what is not in the group any more: an id may be another thread's by now.
func (p *part) leave(host looks) error {
	if len(p.now.Lack) == 0 {
		return nil
	}
	tids, err := host.list(p.group)
	if err != nil {
		return err
	}
	still := make(map[int]bool, len(tids))
	for _, tid := range tids {
		still[tid] = true
	}
	p.now.Lack = slices.DeleteFunc(p.now.Lack, func(tid int) bool { return !still[tid] })
	return nil
}
