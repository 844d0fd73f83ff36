package apply

import (
	"errors"
	"fmt"
	"strings"
	"syscall"

	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/unit"
)

// explain adds to the kernel's EINVAL, which says nothing, what is in the way of
// the value. Any other error comes back as it is.
func (a *Applier) explain(g *cgroup.Group, k cgroup.Knob, v cgroup.Value, err error) error {
	if !errors.Is(err, syscall.EINVAL) {
		return err
	}
	if why := a.blockers(g, k, v); len(why) > 0 {
		return fmt.Errorf("%w, in the way: %s: %w", ErrRefused, strings.Join(why, "; "), err)
	}
	return fmt.Errorf("%w: %w", ErrRefused, err)
}

// blockers says what stands in the way of a value, as far as the host shows it:
// the burst above a quota (or the quota below a burst) and who wrote it, and on
// v1 the group below or above whose limit forbids it. It only reads. What cannot
// be read is left out, since an explanation must not hide the error.
func (a *Applier) blockers(g *cgroup.Group, k cgroup.Knob, v cgroup.Value) []string {
	n, _, err := v.Pair()
	b, berr := g.Bandwidth()
	if err != nil || berr != nil || n < 0 { // no quota at all is always taken
		return nil
	}
	if k == cgroup.KnobBurst {
		return a.overBurst(g, n, b)
	}
	var why []string
	if b.Burst > n {
		owner := a.author(plan.Target{Group: g.Path(), Knob: cgroup.KnobBurst}, b.BurstValue())
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

func (a *Applier) overBurst(g *cgroup.Group, burst unit.Micros, b cgroup.Bandwidth) []string {
	if b.Quota < 0 || burst <= b.Quota {
		return nil
	}
	owner := a.author(plan.Target{Group: g.Path(), Knob: cgroup.KnobMax}, b.Max())
	return []string{fmt.Sprintf("its quota of %d µs, which %s", b.Quota, owner)}
}

// author says, to follow "which", who wrote a value that stands.
func (a *Applier) author(t plan.Target, v cgroup.Value) string {
	e, known := a.journal.Entry(t)
	switch {
	case known && e.IsOriginal(v):
		return "stood there before Berth"
	case known && e.IsOurs(v):
		return fmt.Sprintf("Berth wrote for workload %q", e.Workload)
	}
	return "Berth did not write"
}
