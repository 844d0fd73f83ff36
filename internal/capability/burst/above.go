package burst

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/capability/burst/headroom"
	"github.com/berth-project/berth/internal/value/unit"
)

// Member is the group of one workload, or another group with a limit.
type Member struct {
	Path string
	// Limit is 0 for no limit, and negative if it is not known.
	Limit unit.CPUs
	// Bursts is true if Berth moves the group's quota.
	Bursts bool
}

// Host reads groups.
type Host struct {
	// Quota returns the quota that a group has for the groups below it, 0 for no quota, negative if it is not known.
	Quota func(path string) unit.CPUs
	// Found returns the quota of a group that Children named and that is above no workload: there may be many such
	// groups.
	Found func(path string) unit.CPUs
	// Children returns the direct children of a group.
	Children func(path string) []string
}

// Bounds are what the quotas of groups above leave to the groups below. A quota that moves must not reduce the limits
// of other groups, nor the quota of a group outside its path. So the quota of a group first covers the limits right
// below it, where the quota of a group in between counts as a limit. The bursting groups right below divide the
// remainder by their limits, and may all rise at once. If the claims exceed the quota above, a group in between gets
// its quota less the excess, but never less than the limits of the workloads in it. It divides that amount among the
// groups in it by the same rule.
type Bounds struct {
	host    Host
	members map[string]Member
	// quotas are the quotas that were read, 0 for none.
	quotas map[string]unit.CPUs
	sums   map[string]sums
}

// sums are the totals of the groups below a group.
type sums struct {
	// claims are the limits right below, with the quotas of groups in between. least are the limits of workloads alone;
	// a group in between adds at most its quota.
	claims, least unit.CPUs
	// bursting are the limits of the bursting groups right below.
	bursting unit.CPUs
	// unknown is true if a limit or quota below is not known: then nobody there rises.
	unknown bool
}

// BoundsOf returns the bounds of the bursting members. others returns all other workloads; BoundsOf calls it only if a
// group above has a quota. Other groups with a quota below such a group claim it as well.
func BoundsOf(host Host, bursting []Member, others func() []Member) *Bounds {
	b := &Bounds{
		host: host, members: make(map[string]Member, len(bursting)), quotas: map[string]unit.CPUs{}, sums: map[string]sums{},
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
			b.quotas[m.Path] = min(q, m.Limit) // the group may fall back to its limit at any sample
		}
	}
	return b
}

func (b *Bounds) quota(path string) unit.CPUs { return b.once(path, b.host.Quota) }

func (b *Bounds) once(path string, read func(path string) unit.CPUs) unit.CPUs {
	q, known := b.quotas[path]
	if !known {
		q = read(path)
		b.quotas[path] = q
	}
	return q
}

// deepest is how far below a limited group findOthers searches: a container's group is four below the slice of all
// pods.
const deepest = 4

// findOthers adds the groups below limited groups that have a quota, and that neither belong to a workload nor contain
// one, as members.
func (b *Bounds) findOthers(limited []string) {
	above := map[string]bool{} // above a workload
	for path := range b.members {
		for one := range parents(path) {
			above[one] = true
		}
	}
	for _, path := range limited {
		b.findBelow(path, above, deepest)
	}
}

// findBelow does not descend into a group with a limit: that limit alone is the group's claim. A group that limits a
// bursting workload is in limited itself.
func (b *Bounds) findBelow(path string, above map[string]bool, depth int) {
	for _, child := range b.host.Children(path) {
		m, known := b.members[child]
		if known && m.Limit != 0 {
			continue
		}
		if !known && !above[child] {
			if q := b.once(child, b.host.Found); q != 0 {
				b.members[child] = Member{Path: child, Limit: q}
				continue
			}
		}
		if depth > 1 {
			b.findBelow(child, above, depth-1)
		}
	}
}

// sum adds up the claims on each group, from the bottom up.
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
		for above := range parents(path) {
			of, has := b.sums[above], b.claim(path)
			b.sums[above] = sums{
				claims: of.claims + has.claims, least: of.least + has.least,
				bursting: of.bursting + has.bursting, unknown: of.unknown || has.unknown,
			}
			break
		}
	}
}

// claim returns what a group, with all groups below it, claims of its parent.
func (b *Bounds) claim(path string) sums {
	m, below := b.members[path], b.sums[path]
	if m.Limit > 0 { // the limit is the claim; the groups below do not matter
		own := sums{claims: m.Limit, least: m.Limit}
		if m.Bursts {
			own.bursting = m.Limit
		}
		return own
	}
	switch q := b.quota(path); {
	case q > 0:
		return sums{claims: q, least: min(below.least, q)}
	case q < 0 || m.Limit < 0:
		below.unknown = true
	}
	return below
}

func (b *Bounds) isBelowQuota(path string) bool {
	for above := range parents(path) {
		if b.quotas[above] > 0 {
			return true
		}
	}
	return false
}

// Of returns the least that any group above leaves to a member, and the name of that group; +Inf if no group above has
// a quota. A member always has its limit, as far as the quotas above allow. If the member's limit, or a quota above it,
// is not known, the result is 0.
func (b *Bounds) Of(member string) (least unit.CPUs, where string) {
	least = unit.CPUs(math.Inf(1))
	from := "" // the last group with a quota or limit on the way down: all groups below it divide least
	for _, path := range slices.Backward(slices.Collect(parents(member))) {
		quota := b.quotas[path]
		if quota < 0 {
			return 0, path
		}
		if from != "" && (quota > 0 || b.members[path].Limit > 0) {
			least, from = b.left(least, from, path), path
		}
		if quota > 0 && quota <= least {
			least, where, from = quota, path, path
		}
	}
	if from == "" {
		return least, where
	}
	if b.members[member].Limit <= 0 {
		return 0, where
	}
	return b.left(least, from, member), where
}

// left returns how much of has the group above leaves to path.
func (b *Bounds) left(has unit.CPUs, above, path string) unit.CPUs {
	own, all := b.claim(path), b.sums[above]
	rest := has - all.claims
	if all.unknown {
		rest = unit.CPUs(math.Inf(-1))
	}
	if rest <= 0 {
		return min(max(own.claims+rest, own.least), has)
	}
	if own.bursting > 0 {
		return own.claims + rest*own.bursting/max(all.bursting, own.bursting)
	}
	return own.claims
}

// capPause is how long the groups above must leave a group more before it gets more. Otherwise each workload that comes
// or goes beside the group would cause a write of its quota, and each write refills its pool. headroom.GuardMemory is
// nine times as long: the use of a node moves about its threshold by itself. What groups above leave changes only with
// workloads and limits.
const capPause = 10 * time.Second

// rise is a cap higher than the present cap, with the group above that leaves the least.
type rise struct {
	headroom.Rise

	where string
}

// TakeCap records what the groups above path leave the group, and which of them leaves least. A lower cap applies at
// once, a higher one after capPause. A group without a cap gets the first cap at once.
func (g *Group) TakeCap(now time.Duration, b *Bounds, path string) {
	least, where := b.Of(path)
	if g.Facts.Cap == 0 || least <= g.Facts.Cap {
		g.Facts.Cap, g.CapGroup, g.rise = least, where, rise{}
		return
	}
	if g.rise.See(now, least) {
		g.rise.where = where
	}
	if g.rise.Lasted(now, capPause) {
		g.Facts.Cap, g.CapGroup, g.rise = g.rise.Least, g.rise.where, rise{}
	}
}

// parents yields the paths above a path, from its parent up.
func parents(path string) iter.Seq[string] {
	return func(yield func(string) bool) {
		for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
			if path = path[:at]; !yield(path) {
				return
			}
		}
	}
}

func deepestFirst(a, b string) int {
	return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b))
}
