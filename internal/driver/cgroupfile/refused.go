package cgroupfile

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/apply"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// explain adds to the kernel's EINVAL, which says nothing, what is in the way of
// the value. Any other error comes back as it is.
func (s *groups) explain(g *cgroup.Group, k cgroup.Knob, v cgroup.Value, err error) error {
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	if why := s.blockers(g, k, v); len(why) > 0 {
		return fmt.Errorf("%w, in the way: %s: %w", apply.ErrRefused, strings.Join(why, "; "), err)
	}
	return fmt.Errorf("%w: %w", apply.ErrRefused, err)
}

// blockers says what stands in the way of a value, as far as the host shows it:
// the burst above a quota (or the quota below a burst) and who wrote it, and on
// v1 the group below or above whose limit forbids it. It only reads. What cannot
// be read is left out, since an explanation must not hide the error.
func (s *groups) blockers(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) []string {
	if k == cgroup.KnobRTRuntime {
		return []string{"the budgets for real-time threads of a group and of those beside it have to fit into that of the group above, up to kernel.sched_rt_runtime_us, and no group may have less than those below it"}
	}
	n, _, err := v.Pair()
	b, berr := g.Bandwidth()
	if err != nil || berr != nil || n < 0 { // no quota at all is always taken
		return nil
	}
	if k == cgroup.KnobBurst {
		return s.overBurst(g, n, b)
	}
	var why []string
	if b.Burst > n {
		owner := s.call.Author(Target(g.Path(), cgroup.KnobBurst), plan.Value(b.BurstValue()))
		why = append(why, fmt.Sprintf("its burst of %d µs, which %s", b.Burst, owner))
	}
	if low, blocker, err := g.LowestQuota(); err == nil && n < low && low > b.Burst {
		if blocker == "" {
			blocker = fmt.Sprintf("the kernel's smallest quota, %d µs", low)
		}
		why = append(why, blocker)
	}
	if high, blocker, err := g.HighestQuota(); err == nil && high >= 0 && n > high {
		why = append(why, blocker)
	}
	return why
}

func (s *groups) overBurst(g *cgroup.Group, burst unit.Micros, b cgroup.Bandwidth) []string {
	if b.Quota < 0 || burst <= b.Quota {
		return nil
	}
	owner := s.call.Author(Target(g.Path(), cgroup.KnobMax), plan.Value(b.Max()))
	return []string{fmt.Sprintf("its quota of %d µs, which %s", b.Quota, owner)}
}
