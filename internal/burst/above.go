package burst

import (
	"cmp"
	"iter"
	"maps"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/berth-project/berth/internal/headroom"
	"github.com/berth-project/berth/internal/unit"
)

// Member is the group of one workload, or another group with a limit.
type Member struct {
	Path string
	// Limit is 0 for none, and less where it is not known.
	Limit unit.CPUs
	// Bursts says that its quota moves.
	Bursts bool
}

// Host is what is read of groups.
type Host struct {
	// Quota returns what a group has for those below it, 0 for no quota, and less where it is not known.
	Quota func(path string) unit.CPUs
	// Found returns the same of a group that Children named, and that is above no workload: there may be many.
	Found func(path string) unit.CPUs
	// Children returns the groups right below one.
	Children func(path string) []string
}

// Bounds are what the quotas of groups above leave to those below. A quota that moves must not take from the limits
// of others, nor from the quota of a group that it is not in. So what a group above has is first what the limits right
// below it have together, where the quota of a group between counts as one; those right below that burst divide the
// rest by their limits, and may all rise at once. A group between has its quota, less what these limits are more than
// the quota above them, and divides that among those in it: they always have their limits.
type Bounds struct {
	host    Host
	members map[string]Member
	// quotas are those that were read, 0 for none.
	quotas map[string]unit.CPUs
	sums   map[string]sums
}

// sums are what the groups below one have together.
type sums struct {
	// claims are the limits right below, with the quotas of groups between; least are those of workloads alone, of a
	// group between no more than its quota.
	claims, least unit.CPUs
	// bursting are the limits right below that burst.
	bursting unit.CPUs
	// unknown says that one right below is not known: nobody there rises.
	unknown bool
}

// BoundsOf returns the bounds of those that burst. others returns the rest of the workloads; it is asked only where a
// group above has a quota. Other groups with a quota below that one claim it as well.
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
			b.quotas[m.Path] = min(q, m.Limit) // it may fall back to that at any look
		}
	}
	return b
}

// quota reads that of a group once.
func (b *Bounds) quota(path string) unit.CPUs { return b.once(path, b.host.Quota) }

func (b *Bounds) once(path string, read func(path string) unit.CPUs) unit.CPUs {
	q, known := b.quotas[path]
	if !known {
		q = read(path)
		b.quotas[path] = q
	}
	return q
}

// deepest is how far below a limited group others are looked for: a container's is four below the slice of all pods.
const deepest = 4

// findOthers makes members of the groups with a quota below limited ones that are no workload's, and above none.
func (b *Bounds) findOthers(limited []string) {
	above := map[string]bool{} // a workload
	for path := range b.members {
		for one := range parents(path) {
			above[one] = true
		}
	}
	for _, path := range limited {
		b.findBelow(path, above, deepest)
	}
}

// findBelow goes past what has a limit: that counts, whatever is below it. One that limits a bursting workload is
// limited itself.
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

// claim is what a group claims of the one above it, itself and all below it.
func (b *Bounds) claim(path string) sums {
	m, below := b.members[path], b.sums[path]
	if m.Limit > 0 { // that counts, whatever is below it
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

// Of returns the least that a group above leaves to a member, and which group that is; +Inf where none has a quota.
// A member always has its limit, as far as the quotas above allow; where its limit or a quota is not known that is 0.
func (b *Bounds) Of(member string) (least unit.CPUs, where string) {
	least = unit.CPUs(math.Inf(1))
	from := "" // the group with a quota, or the member, that was last on the way down: all there is below it divides least
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

// left is what a group leaves to one below it, of this much.
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

// capPause is how long the groups above must leave a group more before it may have that. Workloads that come and go
// beside it would have its quota written at each of them, and each write refills its pool. headroom.GuardMemory is nine
// times as long: the use of a node moves about its threshold by itself, what groups above leave only as workloads and
// limits do.
const capPause = 10 * time.Second

// rise is a cap that is higher than the one that counts, and which group leaves the least of it.
type rise struct {
	headroom.Rise

	where string
}

// TakeCap takes over what the groups above the group at path leave it, and which of them leaves least: less at once,
// more once it was more for capPause. A group that had none takes the first.
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
