package cgroupfile

import (
	"errors"
	"syscall"
	"time"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
)

// IsBudget reports whether a target is the budget of a group for real-time threads.
func IsBudget(t plan.Target) bool { return IsGroup(t) && Knob(t) == cgroup.KnobRTRuntime }

// budgetTries is how often a refused budget is written, and budgetPause the time between attempts. A removed group
// still counts under its parent until the kernel released it some milliseconds later (cpu_cgroup_css_released in
// kernel/sched/core.c). The kernel therefore refuses a write right after a restart of a unit.
const (
	budgetTries = 100
	budgetPause = 10 * time.Millisecond
)

// putBudget writes a budget for real-time threads. It tries again while the kernel refuses it.
func putBudget(g *cgroup.Group, v cgroup.Value) error {
	err := put(g, cgroup.KnobRTRuntime, v)
	for n := 1; n < budgetTries && errors.Is(err, syscall.EINVAL); n++ {
		time.Sleep(budgetPause)
		err = put(g, cgroup.KnobRTRuntime, v)
	}
	return err
}

// writeBudget writes a budget for real-time threads, and reads it back.
func (s *groups) writeBudget(g *cgroup.Group, c plan.Change) (cgroup.Value, error) {
	k, value := Knob(c.Target), cgroup.Value(c.Value)
	if err := putBudget(g, value); err != nil {
		return "", s.explain(g, k, value, err)
	}
	s.call.Written(c.Target)
	return stands(g, k, value)
}
