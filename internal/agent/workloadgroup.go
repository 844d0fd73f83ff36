package agent

import (
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/cgroup"
	"github.com/berth-project/berth/internal/hostfs"
	"github.com/berth-project/berth/internal/kernel"
	"github.com/berth-project/berth/internal/plan"
	"github.com/berth-project/berth/internal/reconcile"
	"github.com/berth-project/berth/internal/unit"
	"github.com/berth-project/berth/internal/workload"
)

// workloadGroup is one workload and, once it was found, its group.
type workloadGroup struct {
	workload workload.Workload
	warnings []string
	phase

	group *cgroup.Group
	id    hostfs.ID
	// identity is id as journal and apply know it.
	identity plan.Identity
	// law is what burst knows of the group and decided.
	law burst.Group
	values
	looks
	writing
	// nested are the runtime's copies of the limit below the group.
	nested []*follower

	// started are the start times of the workload's pids, once they were found.
	started map[int]uint64
	// offlineUse is the use of a group outside of the shared pool that was counted.
	offlineUse unit.CPUTime

	throttling        cgroup.Throttling
	ancestorThrottled uint64
	// limited is why the policy cannot have what it asks for, toldReason the decision
	// with which that was reported.
	limited    string
	toldReason burst.Reason
	// kernelBurst is whether this kernel has a burst of its own.
	kernelBurst kernel.Support
}

// phase is where a workload stands, why, and since when.
type phase struct {
	state  State
	reason string
	since  time.Time
}

// enter moves m to a state, keeping the time at which it entered it, and says
// whether anything changed. A change is saved at the next second.
func (q *quotas) enter(m *workloadGroup, state State, reason string) bool {
	if m.state == state && m.reason == reason {
		return false
	}
	if m.state != state {
		m.since = q.opts.Now()
	}
	left := m.state == StateActive && state != StateActive
	m.state, m.reason = state, reason
	if left && m.group != nil {
		q.remember(m)
	}
	q.nextCheckpoint = 0
	return true
}

// release closes the group, and with it gives up the claim to it.
func (m *workloadGroup) release() error {
	if m.group == nil {
		return nil
	}
	for _, f := range m.nested {
		f.close()
	}
	err := m.group.Close()
	m.group, m.nested = nil, nil
	if err != nil {
		return fmt.Errorf("close group of workload %s: %w", m.workload.Name, err)
	}
	return nil
}

// forget drops what is only true of the group that m has now.
func (m *workloadGroup) forget() {
	m.overwritten, m.unsettled = "", false
	m.maxConflict, m.burstConflict = reconcile.Conflict{End: reconcile.EndOriginal}, reconcile.Conflict{}
	m.raising, m.lowering, m.bursting = reconcile.Retry{}, reconcile.Retry{}, reconcile.Retry{}
	m.lastError, m.limited = "", ""
}

// wants says whether the policy of m moves knob k.
func (m *workloadGroup) wants(k cgroup.Knob) bool {
	switch k {
	case cgroup.KnobMax:
		return m.law.Policy.Quota
	case cgroup.KnobBurst:
		return m.law.Policy.Kernel
	default:
		return false
	}
}

// policyOf turns the resolved policy into the control law's.
func policyOf(b workload.Burst) burst.Policy {
	return burst.Policy{
		Quota:         b.QuotaBurst,
		Kernel:        b.KernelBurst,
		QuotaPercent:  int(b.QuotaPercent),
		KernelPercent: int(b.CPUBurstPercent),
		PeriodSeconds: int(b.PeriodSeconds),
	}
}

// allWarnings are those of the file and those of the group.
func (m *workloadGroup) allWarnings() []string {
	warnings := slices.Clone(m.warnings)
	for _, w := range []string{m.specDiffers(), m.lacksBurst(), m.leftBurst(), m.law.PaysFor(), m.lastError} {
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// lacksBurst says what a policy misses that asks for the kernel's own burst.
func (m *workloadGroup) lacksBurst() string {
	if !m.workload.Burst.KernelBurst || m.kernelBurst != kernel.Unsupported {
		return ""
	}
	return fmt.Sprintf("the kernel's own burst is not there: the group has no cpu.max.burst and no cpu.cfs_burst_us (%v)",
		kernel.ErrNotSupported)
}
