package credit

import (
	"time"

	"github.com/berth-project/berth/internal/value/unit"
)

// Ledger is the account of one group: how much CPU time it may still use above its limit. It is a plain value that
// survives a restart of the agent as JSON, within one boot: At is a time on that boot's monotonic clock.
type Ledger struct {
	// Credit is the remaining credit in CPU-seconds. A negative credit is a debt.
	Credit unit.CPUSeconds `json:"creditCPUSeconds"`
	// Usage is the group's counter when Credit was computed.
	Usage unit.CPUTime `json:"usageNanoseconds"`
	// Beside is Facts.Beside.Usage when Credit was computed.
	Beside unit.CPUTime `json:"besideNanoseconds,omitempty"`
	// At is the time on the monotonic clock when Credit was computed.
	At time.Duration `json:"atNanoseconds"`
	// Limit is the limit at that time, in CPUs.
	Limit unit.CPUs `json:"limitCPUs"`
	// Raised is true while the quota is above the limit.
	Raised bool `json:"raised"`
	// Lowered is true from the sample at which credit ran out until the quota is raised again.
	Lowered bool `json:"lowered"`
}

// Open starts the account of a group that is seen for the first time. The account is full: a group that was never
// above its limit owes nothing. A group whose quota is found above its limit without an account (foundRaised) starts
// at 0, because nobody knows what it has used.
func Open(p Policy, f Facts, foundRaised bool) Ledger {
	l := Ledger{Usage: f.Usage, Beside: f.Beside.Usage, At: f.At, Limit: f.Limit(), Raised: foundRaised, Lowered: foundRaised}
	if !foundRaised && !p.Unlimited() {
		l.Credit = p.Capacity(f.Limit())
	}
	return l
}

// Advance updates the account to the sample f. It adds the limit over the time passed, subtracts the CPU time used,
// and discards what exceeds the capacity. The credit may become negative. Advancing twice by the same facts changes
// nothing.
//
// If the limit changed in between, the time of the change is not known, so the smaller limit applies. While the limit
// is not known, nothing changes. If the clock went back, no time has passed. A counter that went back was reset or
// belongs to a new group: all its use is charged and no time is credited. Without a credit limit the credit is 0, so
// that a policy that introduces a credit limit later starts from nothing.
func (l Ledger) Advance(f Facts, p Policy) Ledger {
	limit := f.Limit()
	if f.LimitQuota == 0 && l.Limit > 0 {
		return l // not known at the moment: the next sample covers the time until then
	}
	passed, used := f.At-l.At, f.Usage.Since(l.Usage).Seconds()
	if used < 0 {
		passed, used = 0, max(f.Usage, 0).Seconds()
	}
	used += f.besideSince(l.Beside)
	credit := l.Credit + min(l.Limit, limit).Over(max(passed, 0)) - used
	if passed > 0 || used > 0 {
		credit = min(credit, l.most(f, p, used))
	}
	l.Credit = min(credit, p.Capacity(limit))
	if p.Unlimited() {
		l.Credit = 0
	}
	l.Usage, l.Beside, l.At, l.Limit = f.Usage, f.Beside.Usage, max(f.At, l.At), limit
	return l
}

// most returns the greatest credit after a sample that charged used CPU-seconds: the capacity minus what the group may
// have used at once after idle time that had already filled the account. At the limit, a group cannot use more than
// the reserve at once. Above it, no more than the capacity is presumed, so that a silent agent causes no debts.
func (l Ledger) most(f Facts, p Policy, used unit.CPUSeconds) unit.CPUSeconds {
	capacity := p.Capacity(f.Limit())
	surge := min(used, capacity)
	if !l.Raised && !f.above() {
		surge = min(surge, f.reserve())
	}
	return capacity - surge
}

// besideSince returns what was used beside the group since an earlier sample. The counter restarts with the agent.
func (f Facts) besideSince(earlier unit.CPUTime) unit.CPUSeconds {
	used := f.Beside.Usage.Since(earlier)
	if used < 0 {
		used = max(f.Beside.Usage, 0)
	}
	return used.Seconds()
}
