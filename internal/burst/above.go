package burst

import (
	"math"

	"github.com/berth-project/berth/internal/unit"
)

// Member is the group of one workload.
type Member struct {
	Path string
	// Above are the groups above it, from its parent up.
	Above []string
	// Bursts says that its quota moves.
	Bursts bool
}

// Bounds are what the quotas of groups above leave to those below. A quota that moves must not take from the limits
// of others. So what a group above has is first what all limits below it have together; those that burst divide the
// rest by their limits, and may all rise at once.
type Bounds struct {
	limit func(path string) unit.CPUs
	// above are the groups above each member.
	above map[string][]string
	// quotas are those above groups that burst, claims the limits below each group, and bursting those of them that
	// burst.
	quotas, claims, bursting map[string]unit.CPUs
}

// BoundsOf returns the bounds of all members. quota returns what a group has for those below it, limit the limit of a
// member; 0 is none, also for a group that is no member.
func BoundsOf(members []Member, quota, limit func(path string) unit.CPUs) *Bounds {
	b := &Bounds{
		limit: limit, above: map[string][]string{},
		quotas: map[string]unit.CPUs{}, claims: map[string]unit.CPUs{}, bursting: map[string]unit.CPUs{},
	}
	for _, m := range members {
		b.above[m.Path] = m.Above
		for _, path := range m.Above {
			if !m.Bursts {
				break
			}
			if q := quota(path); q > 0 {
				b.quotas[path] = q
			}
		}
	}
	if len(b.quotas) == 0 {
		return b // nobody's limit matters
	}
	for _, m := range members {
		b.claim(m)
		if q, has := b.quotas[m.Path]; has && m.Bursts && limit(m.Path) > 0 {
			b.quotas[m.Path] = min(q, limit(m.Path)) // it may fall back to that at any look
		}
	}
	return b
}

// claim adds the limit of a member to what is taken of the groups above it, up to a group that has a limit as a
// member: further up that one counts, whatever is below it.
func (b *Bounds) claim(m Member) {
	claim := b.limit(m.Path)
	for _, path := range m.Above {
		b.claims[path] += claim
		if m.Bursts {
			b.bursting[path] += claim
		}
		if b.limit(path) > 0 {
			return
		}
	}
}

// Of returns the least that a group above leaves to a member, and which group that is; +Inf where none has a quota.
// A member always has its limit, as far as the quota itself allows.
func (b *Bounds) Of(member string) (least unit.CPUs, where string) {
	least = unit.CPUs(math.Inf(1))
	own := b.limit(member)
	for _, path := range b.above[member] {
		if quota, has := b.quotas[path]; has {
			left := min(own, quota)
			if rest := quota - b.claims[path]; rest > 0 {
				left += rest * own / max(b.bursting[path], own)
			}
			if left < least {
				least, where = left, path
			}
		}
		if further := b.limit(path); further > 0 {
			own = further
		}
	}
	return least, where
}
