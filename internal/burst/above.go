package burst

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/unit"
)

// Member is the group of one workload, or another group with a limit.
type Member struct {
	Path string
	// Limit is 0 for none.
	Limit unit.CPUs
	// Bursts says that its quota moves.
	Bursts bool
}

// Host is what is read of groups.
type Host struct {
	// Quota returns what a group has for those below it, 0 for no quota, and less where it is not known.
	Quota func(path string) unit.CPUs
	// Children returns the groups right below one.
	Children func(path string) []string
}

// Bounds are what the quotas of groups above leave to those below. A quota that moves must not take from the limits
// of others. So what a group above has is first what all limits below it have together, no more than a quota between
// them and it; those that burst divide the rest by their limits, and may all rise at once.
type Bounds struct {
	host    Host
	members map[string]Member
	// quotas are those that were read, 0 for none; claims the limits below each group, and bursting those of them
	// that burst and can rise.
	quotas, claims, bursting map[string]unit.CPUs
}

// BoundsOf returns the bounds of those that burst. others returns the rest of the workloads; it is asked only where a
// group above has a quota. Other groups with a quota below that one claim it as well.
func BoundsOf(host Host, bursting []Member, others func() []Member) *Bounds {
	b := &Bounds{
		host: host, members: make(map[string]Member, len(bursting)), quotas: map[string]unit.CPUs{},
		claims: map[string]unit.CPUs{}, bursting: map[string]unit.CPUs{},
	}
	var limited []string
	for _, m := range bursting {
		b.members[m.Path] = m
		for path := range parents(m.Path) {
			if _, read := b.quotas[path]; !read && b.quota(path) > 0 {
				limited = append(limited, path)
			}
		}
	}
	if len(limited) == 0 {
		return b // nobody's limit matters
	}
	for _, m := range others() {
		b.members[m.Path] = m
	}
	b.findOthers(limited)
	b.sum()
	for _, m := range bursting {
		if q := b.quotas[m.Path]; q > 0 && m.Limit > 0 {
			b.quotas[m.Path] = min(q, m.Limit) // it may fall back to that at any look
		}
	}
	return b
}

// quota reads one once.
func (b *Bounds) quota(path string) unit.CPUs {
	q, read := b.quotas[path]
	if !read {
		q = b.host.Quota(path)
		b.quotas[path] = q
	}
	return q
}

// deepest is how far below a limited group others are looked for: a container's is four below the slice of all pods.
const deepest = 4

// findOthers makes members of the groups with a quota below limited ones that are no workload's, and above none.
func (b *Bounds) findOthers(limited []string) {
	look := map[string]bool{}
	for path := range b.members {
		look[path] = true
		for above := range parents(path) {
			look[above] = true
		}
	}
	for _, path := range limited {
		b.findBelow(path, look, deepest)
	}
}

func (b *Bounds) findBelow(path string, look map[string]bool, depth int) {
	for _, child := range b.host.Children(path) {
		if _, known := b.members[child]; known && !look[child] {
			continue // found below another one
		}
		if !look[child] && b.quota(child) > 0 {
			b.members[child] = Member{Path: child, Limit: b.quota(child)}
			continue
		}
		if depth > 1 {
			b.findBelow(child, look, depth-1)
		}
	}
}

// sum adds up what is claimed of each group, from below.
func (b *Bounds) sum() {
	all := map[string]bool{}
	for path := range b.members {
		if !b.isBelowQuota(path) {
			continue
		}
		all[path] = true
		for above := range parents(path) {
			all[above] = true
		}
	}
	for _, path := range slices.SortedFunc(maps.Keys(all), deepestFirst) {
		claim, bursting := b.claims[path], b.bursting[path]
		if m := b.members[path]; m.Limit > 0 { // that counts, whatever is below it
			claim, bursting = m.Limit, 0
			if m.Bursts {
				bursting = claim
			}
		} else if q := b.quota(path); q > 0 && claim >= q {
			claim, bursting = q, 0 // nobody below can rise
		}
		for above := range parents(path) {
			b.claims[above] += claim
			b.bursting[above] += bursting
			break
		}
	}
}

func (b *Bounds) isBelowQuota(path string) bool {
	for above := range parents(path) {
		if b.quotas[above] > 0 {
			return true
		}
	}
	return false
}

// Of returns the least that a group above leaves to a member, and which group that is; +Inf where none has a quota.
// A member always has its limit, as far as the quota itself allows; where its limit or a quota is not known that is 0.
func (b *Bounds) Of(member string) (least unit.CPUs, where string) {
	least = unit.CPUs(math.Inf(1))
	own := b.members[member].Limit
	for path := range parents(member) {
		quota := b.quotas[path]
		if quota < 0 {
			return 0, path
		}
		if quota > 0 {
			left := min(own, quota)
			if rest := quota - b.claims[path]; rest > 0 && own > 0 {
				left += rest * own / max(b.bursting[path], own)
			}
			if left < least {
				least, where = left, path
			}
		}
		own = cmp.Or(b.members[path].Limit, own)
	}
	return least, where
}

// capPause is how long the groups above must leave a group more before it may have that. Workloads that come and go
// beside it would have its quota written at each of them, and each write refills its pool.
const capPause = 10 * time.Second

// rise is a cap that is higher than the one that counts: the least of them since then.
type rise struct {
	cap   unit.CPUs
	where string
	since time.Duration
}

// TakeCap takes over what the groups above the group at path leave it, and which of them leaves least: less at once,
// more once it was more for capPause. A group that had none takes the first.
func (g *Group) TakeCap(now time.Duration, b *Bounds, path string) {
	least, where := b.Of(path)
	switch {
	case g.Facts.Cap == 0 || least <= g.Facts.Cap:
		g.Facts.Cap, g.CapGroup, g.rise = least, where, rise{}
		return
	case g.rise.cap == 0:
		g.rise = rise{cap: least, where: where, since: now}
	case least < g.rise.cap:
		g.rise.cap, g.rise.where = least, where
	}
	if now-g.rise.since >= capPause {
		g.Facts.Cap, g.CapGroup, g.rise = g.rise.cap, g.rise.where, rise{}
	}
}

// parents are the paths above one, from its parent up.
func parents(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
			if path = path[:at]; !yield(path) {
				return
			}
		}
	}
}

// deepestFirst has a group come before all above it.
func deepestFirst(a, b string) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}
