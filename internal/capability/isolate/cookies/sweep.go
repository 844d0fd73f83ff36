package cookies

import (
	"slices"

	"github.com/berth-project/berth/internal/engine/driver/cookie"
)

// sweep checks all threads of the groups in several steps: workloads decide how many threads there are.
type sweep struct {
	left  []string // the groups that still have to be checked
	under part     // a group that the next step continues
}

// part is a group of which some threads were checked.
type part struct {
	group string
	now   cookie.Threads
	rest  []int
}

// looks does the reads of a sweep. A group that is gone has no threads.
type looks interface {
	list(group string) ([]int, error)
	see(tids []int, into *cookie.Threads) error
	seen(group string, now cookie.Threads)
}

// extend puts new groups first in the sweep, and removes groups that are gone.
func (s *sweep) extend(before, now []string) {
	s.left = slices.DeleteFunc(s.left, func(group string) bool { return !slices.Contains(now, group) })
	fresh := slices.DeleteFunc(slices.Clone(now), func(group string) bool { return slices.Contains(before, group) })
	s.left = append(fresh, s.left...)
}

// step checks at most budget threads, and returns the remaining budget. Each group costs 1 as well. A failed check
// costs the threads it read, even below 0: otherwise a workload could make any number of checks fail for free.
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

// skip removes the group at which a step failed from the sweep, and returns it.
func (s *sweep) skip() (group string) {
	group, s.left, s.under = s.left[0], s.left[1:], part{}
	return group
}

// resume returns the first remaining group, with the threads that an earlier step checked.
func (s *sweep) resume(host looks) (p part, resumed bool, err error) {
	if s.under.group == s.left[0] {
		return s.under, true, nil
	}
	tids, err := host.list(s.left[0])
	return part{group: s.left[0], rest: tids}, false, err
}

// finish reports the result of a group.
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

// leave removes threads that are no longer in the group: their ids may belong to other threads now.
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
