package cgroupfile

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/unit"
)

// explain adds the obstacles to the kernel's EINVAL, which names no reason. It returns any other error unchanged.
func (s *groups) explain(g *cgroup.Group, k cgroup.Knob, v cgroup.Value, err error) error {
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	if why := s.blockers(g, k, v); len(why) > 0 {
		return fmt.Errorf("%w, in the way: %s: %w", apply.ErrRefused, strings.Join(why, "; "), err)
	}
	return fmt.Errorf("%w: %w", apply.ErrRefused, err)
}

// blockers returns the obstacles to a value, as far as the host shows them. They are the burst above a quota (or the
// quota below a burst) and its writer, and on v1 the limit of a group below or above. blockers only reads. It omits
// what it cannot read, because an explanation must not hide the error.
func (s *groups) blockers(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) []string {
	if k == cgroup.KnobRTRuntime {
		return []string{"the budgets for real-time threads of a group and of those beside it have to fit into that of the group above, up to kernel.sched_rt_runtime_us, and no group may have less than those below it"}
	}
	n, _, err := v.Pair()
	b, berr := g.Bandwidth()
	if err != nil || berr != nil || n < 0 { // the kernel always accepts unlimited
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
