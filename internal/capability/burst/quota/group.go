package quota

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/capability/burst/credit"
	"github.com/berth-project/berth/internal/capability/burst/follower"
	"github.com/berth-project/berth/internal/engine/reconcile"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/node/roster"
)

// Group is one workload and, once found, its group.
type Group struct {
	entry *roster.Entry
	// workload is the part of the entry that was copied.
	workload *workload.Workload
	phase
	follower.Limits
	// law is what burst knows of the group and decided.
	law burst.Group
	looks
	// made and refused count the writes to earlier groups.
	made, refused uint64
	// nested are the runtime's copies of the limit below the group, by path.
	nested map[string]*follower.Follower

	throttling        cgroup.Throttling
	ancestorThrottled uint64
	// limited is why the policy cannot get what it asks for, reportedReason the decision with which that was reported.
	limited        string
	reportedReason credit.Reason
}

// phase is the state of a workload, its reason, and its start.
type phase struct {
	state  burst.State
	reason string
	since  time.Time
}

// enter moves m to a state, with the time of entry, and reports whether anything changed. A change is saved at the next
// second.
func (q *Groups) enter(m *Group, state burst.State, reason string) bool {
	if m.state == state && m.reason == reason {
		return false
	}
	if m.state != state {
		m.since = q.opts.Now()
	}
	left := m.state == burst.StateActive && state != burst.StateActive
	m.state, m.reason = state, reason
	if left && m.Group != nil {
		q.ledgers.remember(m)
	}
	q.opts.Changed()
	return true
}

// writes counts the writes that were made, and the writes that were refused or not effective.
func (m *Group) writes() (made, refused uint64) {
	made, refused = m.made, m.refused
	for _, q := range []*reconcile.Quota{m.Max, m.Burst} {
		if q != nil {
			n, failed := q.Writes()
			made, refused = made+n, refused+failed
		}
	}
	return made, refused
}

// othersBurst says that the kernel's burst is another writer's, "" if it is not.
func (m *Group) othersBurst() string {
	if !m.workload.Burst.KernelBurst || !m.law.ForeignBurst {
		return ""
	}
	return cmp.Or(m.LeftBurst(), "the kernel's own burst of "+m.Group.Path()+" is another program's: it is left to that, and counted")
}

// otherSpec reports whether the spec names another limit than the group has.
func (m *Group) otherSpec() bool {
	if m.Max == nil || m.workload.Limit <= 0 || cgroup.Grants(m.workload.Limit, m.Max.Original()) {
		return false
	}
	limit, _, err := m.Max.Original().Pair()
	return err == nil && limit >= 0
}

// specDiffers returns a warning if otherSpec is true.
func (m *Group) specDiffers() string {
	if !m.otherSpec() {
		return ""
	}
	return fmt.Sprintf("spec.cpu.limit is %g CPUs, the group's limit is %g CPUs: the group's counts",
		m.workload.Limit, m.Max.Original().Rate())
}

// wants reports whether the policy of m moves knob k.
func (m *Group) wants(k cgroup.Knob) bool {
	return ofKnob(k, m.law.Policy.QuotaBurst, m.law.Policy.KernelBurst)
}

// ofKnob returns the value for a knob: for the quota or for the kernel's burst.
func ofKnob(k cgroup.Knob, quota, saved bool) bool {
	return k == cgroup.KnobMax && quota || k == cgroup.KnobBurst && saved
}

// warnings returns the warnings of the file and of the group.
func (m *Group) warnings() []string {
	warnings := slices.Clone(m.entry.Warnings)
	for _, w := range []string{m.specDiffers(), m.lacksBurst(), m.othersBurst(), m.law.PaysFor(), m.refusal()} {
		if w != "" {
			warnings = append(warnings, w)
		}
	}
	return warnings
}

// lacksBurst returns a warning if the policy asks for the kernel's own burst and the kernel has none.
func (m *Group) lacksBurst() string {
	if !m.workload.Burst.KernelBurst || m.Group == nil || m.law.Facts.HasBurst {
		return ""
	}
	return fmt.Sprintf("the kernel's own burst is not there: the group has no cpu.max.burst and no cpu.cfs_burst_us (%v)",
		kernel.ErrNotSupported)
}

// refusal returns why the last write was not made, "" if it was.
func (m *Group) refusal() string {
	if m.Max == nil {
		return ""
	}
	if b := m.law.Facts.Burst; m.state == burst.StateActive && m.law.Decision.Quota < b {
		return fmt.Sprintf("the kernel does not take the limit because of the burst of %d µs in %s", b, m.Group.Path())
	}
	return cmp.Or(m.Max.Problem(), m.Burst.Problem())
}
