package credit

import (
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Ledger is the account of one group: how much CPU time it may still use above
// its limit. It is a plain value that survives a restart of the agent as JSON,
// within one boot: At is a moment of that boot's monotonic clock.
type Ledger struct {
	// Credit is what is left, in CPU-seconds. A negative credit is a debt.
	Credit unit.CPUSeconds `json:"creditCPUSeconds"`
	// Usage is the group's counter when Credit was computed.
	Usage unit.CPUTime `json:"usageNanoseconds"`
	// Beside is Facts.Beside.Usage as it was then.
	Beside unit.CPUTime `json:"besideNanoseconds,omitempty"`
	// At is when that was, on the monotonic clock.
	At time.Duration `json:"atNanoseconds"`
	// Limit is the limit that held then, in CPUs.
	Limit unit.CPUs `json:"limitCPUs"`
	// Raised is true while the quota stands above the limit.
	Raised bool `json:"raised"`
	// Lowered is true from the look at which credit ran out until the quota
	// is raised again.
	Lowered bool `json:"lowered"`
}

// Open starts the account of a group seen for the first time. It is full: a
// group that was never above its limit owes nothing. A group found standing
// above its limit without an account (foundRaised) starts at 0 instead, since
// nobody knows what it has used up.
func Open(p Policy, f Facts, foundRaised bool) Ledger {
	l := Ledger{Usage: f.Usage, Beside: f.Beside.Usage, At: f.At, Limit: f.Limit(), Raised: foundRaised, Lowered: foundRaised}
	if !foundRaised && !p.Unlimited() {
		l.Credit = p.Capacity(f.Limit())
	}
	return l
}

// Advance brings the account up to the look f: the limit over the time passed
// comes in, the CPU time used goes out, and what exceeds the capacity is lost.
// The credit is not kept from going negative. Advancing twice by the same facts
// changes nothing.
//
// When the limit changed in between, nobody saw when: the smaller of the two
// counts. While it is not known nothing changes. A clock that went back counts as no time. A counter that went back
// was reset or belongs to a new group: all it shows is charged and no time is
// credited. Without a credit limit the credit is 0, so that a policy which
// introduces one later starts from nothing.
func (l Ledger) Advance(f Facts, p Policy) Ledger {
	limit := f.Limit()
	if f.LimitQuota == 0 && l.Limit > 0 {
		return l // not known at the moment: the next look brings what passed until then
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

// most returns the credit to which the account is cut after a look before which
// used CPU-seconds went out: the capacity less what may have been used in one
// go after an idle time that had filled the account already. At the limit a
// group cannot use more than the reserve in one go. Above it, no more than the
// capacity is presumed, so that the silence of an agent makes no debts.
func (l Ledger) most(f Facts, p Policy, used unit.CPUSeconds) unit.CPUSeconds {
	capacity := p.Capacity(f.Limit())
	surge := min(used, capacity)
	if !l.Raised && !f.above() {
		surge = min(surge, f.reserve())
	}
	return capacity - surge
}

// besideSince returns what was used beside the group since an earlier look. The counter
// begins anew with the agent.
func (f Facts) besideSince(earlier unit.CPUTime) unit.CPUSeconds {
	used := f.Beside.Usage.Since(earlier)
	if used < 0 {
		used = max(f.Beside.Usage, 0)
	}
	return used.Seconds()
}
