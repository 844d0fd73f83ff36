package agent

import (
	"fmt"
	"math"
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

// member is one workload and, once it was found, its group.
type member struct {
	workload workload.Workload
	warnings []string

	state  State
	reason string
	since  time.Time

	group *cgroup.Group
	id    hostfs.ID
	// identity is id as journal and apply know it.
	identity plan.Identity
	policy   burst.Policy
	// limit is the group's own cpu.max: what it has when Berth leaves.
	limit cgroup.Value
	// standing is the cpu.max that was last seen or written.
	standing cgroup.Value
	// burstStanding is the same for cpu.max.burst.
	burstStanding cgroup.Value
	// overwritten is the last cpu.max of somebody else that was written over: the
	// spec may still come to confirm it.
	overwritten cgroup.Value
	facts       burst.Facts
	ledger      burst.Ledger
	decision    burst.Decision
	guard       burst.Guard
	capGroup    string
	// besides names the containers without a limit that m pays for.
	besides string
	// nested are the runtime's copies of the limit below the group.
	nested []*follower

	// due is the next look, quotaDue the next look at the quota, rereadDue the
	// next full reading, locatedAt when the group was last looked up.
	due, quotaDue, rereadDue, locatedAt time.Duration
	// raising, lowering and bursting hold back a write after one of the same kind
	// that was refused: a full disk must not delay the way back to the limit.
	raising, lowering, bursting reconcile.Retry
	lastError                   string
	// burstLeft says that the kernel's burst was left to somebody else, unsettled
	// that a new limit is not in the journal yet.
	burstLeft, unsettled bool
	// resizing says that the spec of the pod asks for another limit than the group
	// has.
	resizing bool
	// yielding is until when it is taken for granted that the spec is about to.
	yielding time.Duration
	// noBurst says that it has no kernel burst for as long.
	noBurst bool
	// quiet is the present cadence.
	quiet time.Duration
	// started are the start times of the workload's pids, once they were found.
	started map[int]uint64
	// maxConflict and burstConflict are what is known of other writers.
	maxConflict, burstConflict reconcile.Conflict
	offlineUse                 unit.CPUTime

	throttling        cgroup.Throttling
	ancestorThrottled uint64
	peak              peak
	writes            uint64
	writeErrors       uint64
	limited           string
	toldReason        burst.Reason
	// kernelBurst is whether this kernel has a burst of its own.
	kernelBurst kernel.Support
}

// enter moves m to a state, keeping the time at which it entered it, and says
// whether anything changed. A change is saved at the next second.
func (c *controller) enter(m *member, state State, reason string) bool {
	if m.state == state && m.reason == reason {
		return false
	}
	if m.state != state {
		m.since = c.opts.Now()
	}
	left := m.state == StateActive && state != StateActive
	m.state, m.reason = state, reason
	if left && m.group != nil {
		c.remember(m)
	}
	c.nextCheckpoint = 0
	return true
}

// release closes the group, and with it gives up the claim to it.
func (m *member) release() error {
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
func (m *member) forget() {
	m.overwritten = ""
	m.maxConflict, m.burstConflict = reconcile.Conflict{End: reconcile.EndOriginal}, reconcile.Conflict{}
	m.burstLeft, m.unsettled, m.lastError = false, false, ""
	m.raising, m.lowering, m.bursting = reconcile.Retry{}, reconcile.Retry{}, reconcile.Retry{}
	m.guard, m.peak, m.limited = burst.Guard{}, peak{}, ""
}

// wants says whether the policy of m moves knob k.
func (m *member) wants(k cgroup.Knob) bool {
	switch k {
	case cgroup.KnobMax:
		return m.workload.Burst.QuotaBurst
	case cgroup.KnobBurst:
		return m.workload.Burst.KernelBurst
	default:
		return false
	}
}

// cadence is how often the group is looked at when nothing is urgent: once a
// period, so that the highest use within a period is seen, within the bounds
// that keep the agent cheap. A group that is raised already, and used less between
// two looks than its limit grants in one period, cannot have been above its limit
// in any: the next look comes twice as late, up to MaxLook. Where credit is so
// short that it must come sooner, the law says so.
func (m *member) cadence(used unit.CPUTime) time.Duration {
	least := min(max(m.facts.Period.Duration(), burst.MinLook), burst.MaxLook)
	raised := m.facts.Standing > m.facts.LimitQuota
	if !raised || used.Seconds() >= m.facts.LimitQuota.CPUSeconds() {
		m.quiet = least
	} else {
		m.quiet = min(max(2*m.quiet, least), burst.MaxLook)
	}
	return m.quiet
}

// ceiling is the highest quota of m's policy, as a rate.
func (m *member) ceiling() unit.CPUs {
	if !m.workload.Burst.QuotaBurst {
		return m.facts.Limit()
	}
	return m.policy.Ceiling(m.facts.Limit())
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

// status is what the outside is told of m.
func (m *member) status() Status {
	s := Status{
		Name:         m.workload.Name,
		File:         m.workload.File,
		Group:        m.workload.Cgroup,
		State:        m.state,
		Reason:       m.reason,
		Since:        m.since,
		Policy:       m.workload.Burst.Policy,
		PolicySource: m.workload.Burst.Source,
		Warnings:     m.allWarnings(),
	}
	if m.group == nil {
		return s
	}
	s.Group = m.group.Path()
	if m.state == StateActive || m.state == StateDrift {
		s.Burst = m.burstStatus()
	}
	return s
}

// allWarnings are those of the file and those of the group.
func (m *member) allWarnings() []string {
	warnings := slices.Clone(m.warnings)
	for _, w := range []string{m.specDiffers(), m.lacksBurst(), m.leftBurst(), m.paysFor(), m.lastError} {
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// lacksBurst says what a policy misses that asks for the kernel's own burst.
func (m *member) lacksBurst() string {
	if !m.workload.Burst.KernelBurst || m.kernelBurst != kernel.Unsupported {
		return ""
	}
	return fmt.Sprintf("the kernel's own burst is not there: the group has no cpu.max.burst and no cpu.cfs_burst_us (%v)",
		kernel.ErrNotSupported)
}

func (m *member) burstStatus() *Burst {
	return &Burst{
		LimitCPUs:         m.facts.Limit(),
		QuotaMicros:       m.facts.Standing,
		PeriodMicros:      m.facts.Period,
		KernelBurst:       m.facts.Burst,
		KernelSupport:     m.kernelBurst,
		CeilingCPUs:       finite(m.facts.Ceiling),
		CreditSeconds:     m.ledger.Credit,
		CapacitySeconds:   finite(m.policy.Capacity(m.facts.Limit())),
		ReserveSeconds:    m.decision.Reserve,
		ExposureSeconds:   m.decision.Exposure,
		Decision:          m.decision.Reason.String(),
		Limited:           m.limited,
		CapGroup:          m.capGroup,
		Periods:           m.throttling.Periods,
		Throttled:         m.throttling.Throttled,
		AncestorThrottled: m.ancestorThrottled,
		Writes:            m.writes,
	}
}

// finite replaces an unbounded amount by -1, since JSON has no infinity.
func finite[N ~float64](s N) N {
	if math.IsInf(float64(s), 0) {
		return -1
	}
	return s
}

// peak keeps the highest use within one period since it was last taken.
type peak struct {
	at    time.Duration
	usage unit.CPUTime
	ratio float64
}

// add takes a reading. Use is averaged over at least a period, because a mean
// over less would call the start of every burst a peak.
func (p *peak) add(at time.Duration, usage unit.CPUTime, f burst.Facts) {
	elapsed := at - p.at
	if p.at != 0 && elapsed < f.Period.Duration()*9/10 {
		return
	}
	if p.at != 0 && f.Limit() > 0 {
		rate := usage.Since(p.usage).Seconds().Per(elapsed)
		p.ratio = max(p.ratio, float64(rate/f.Limit()))
	}
	p.at, p.usage = at, usage
}

// take returns the peak as a multiple of the limit and starts anew.
func (p *peak) take() float64 {
	ratio := p.ratio
	p.ratio = 0
	return ratio
}
