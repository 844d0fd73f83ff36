package burst_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/capability/burst"
	"github.com/berth-project/berth/internal/value/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// node is a tree of groups: quotas of groups that are no workloads, and limits of workloads. All workloads burst except
// still.
type node struct {
	quotas, limits map[string]unit.CPUs
	still          string
	// asked counts requests for the workloads that do not burst, read counts reads of a quota, and found counts reads
	// of a quota of a group that is no workload.
	asked, read, found int
}

// members returns the workloads that burst, or the others.
func (n *node) members(bursting bool) (all []burst.Member) {
	for _, path := range slices.Sorted(maps.Keys(n.limits)) {
		if (path != n.still) == bursting {
			all = append(all, burst.Member{Path: path, Limit: n.limits[path], Bursts: bursting})
		}
	}
	return all
}

func (n *node) bounds() *burst.Bounds {
	host := burst.Host{
		Quota:    func(path string) unit.CPUs { n.read++; return n.quotas[path] },
		Found:    func(path string) unit.CPUs { n.found++; return n.quotas[path] },
		Children: n.children,
	}
	return burst.BoundsOf(host, n.members(true), func() []burst.Member { n.asked++; return n.members(false) })
}

// children returns the groups directly below a group.
func (n *node) children(above string) []string {
	all := map[string]bool{}
	for _, known := range []map[string]unit.CPUs{n.quotas, n.limits} {
		for path := range known {
			if rest, below := strings.CutPrefix(path, above+"/"); below {
				name, _, _ := strings.Cut(rest, "/")
				all[above+"/"+name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(all))
}

func TestBounds(t *testing.T) {
	type cpus = map[string]unit.CPUs
	inf := unit.CPUs(math.Inf(1))
	for name, c := range map[string]struct {
		quotas, limits cpus
		still          string // does not burst
		want           cpus
	}{
		"no quota above":                            {nil, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": inf, "s/b": inf}},
		"alone":                                     {cpus{"s": 4}, cpus{"s/a": 1}, "", cpus{"s/a": 4}},
		"beside one that does not":                  {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 2}, "s/b", cpus{"s/a": 2}},
		"two that burst":                            {cpus{"s": 6}, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": 2, "s/b": 4}},
		"two, beside one that does":                 {cpus{"s": 7}, cpus{"s/a": 1, "s/b": 1, "s/c": 3}, "s/c", cpus{"s/a": 2, "s/b": 2}},
		"more limits than quota":                    {cpus{"s": 2}, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": 1, "s/b": 2}},
		"a limit above the quota":                   {cpus{"s": 2}, cpus{"s/a": 3}, "", cpus{"s/a": 2}},
		"one without a limit":                       {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 0}, "", cpus{"s/a": 4}},
		"further up":                                {cpus{"s": 4, "s/t": 4}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, "", cpus{"s/t/a": 1, "s/c": 2}},
		"further up, with room":                     {cpus{"s": 8, "s/t": 3}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, "", cpus{"s/t/a": 1.5, "s/c": 5}},
		"below another workload":                    {cpus{"s": 10, "s/a": 3}, cpus{"s/a": 3, "s/a/x": 1, "s/a/y": 2, "s/b": 2}, "", cpus{"s/a": 6, "s/a/x": 1, "s/a/y": 2, "s/b": 4}},
		"below one that stands above its limit":     {cpus{"s/a": 6}, cpus{"s/a": 3, "s/a/x": 1}, "", cpus{"s/a/x": 3}},
		"below one that has no more":                {cpus{"s": 4, "s/a": 3}, cpus{"s/a": 3, "s/a/x": 1, "s/b": 1}, "", cpus{"s/a": 3, "s/a/x": 3, "s/b": 1}},
		"a quota between":                           {cpus{"s": 8, "s/t": 1}, cpus{"s/t/a": 1, "s/t/b": 1, "s/t/c": 1, "s/t/d": 1, "s/e": 1}, "", cpus{"s/t/a": 1, "s/e": 7}},
		"a quota between, of one that does not":     {cpus{"s": 8, "s/t": 1}, cpus{"s/t/a": 4, "s/e": 1}, "s/t/a", cpus{"s/e": 7}},
		"beside a group with more than those in it": {cpus{"s": 10, "s/t": 8}, cpus{"s/t/a": 1, "s/t/b": 0, "s/c": 2}, "", cpus{"s/t/a": 8, "s/c": 2}},
		"two such groups, with too little":          {cpus{"s": 6, "s/t": 4, "s/u": 4}, cpus{"s/t/a": 1, "s/u/a": 1, "s/c": 1}, "", cpus{"s/t/a": 1, "s/u/a": 1, "s/c": 1}},
		"two such groups, with too little each":     {cpus{"s": 6, "s/t": 4, "s/u": 4}, cpus{"s/t/a": 1, "s/u/a": 1}, "", cpus{"s/t/a": 2, "s/u/a": 2}},
		"one such group below another":              {cpus{"s": 10, "s/t": 8, "s/t/v": 6}, cpus{"s/t/v/a": 1, "s/t/b": 1, "s/c": 1}, "", cpus{"s/t/v/a": 6, "s/t/b": 2, "s/c": 2}},
		"one of no workload with a limit":           {cpus{"s": 10, "s/t": 8}, cpus{"s/t/b": 0, "s/c": 1}, "s/t/b", cpus{"s/c": 2}},
		"beside a group that nobody follows":        {cpus{"s": 4, "s/b": 1}, cpus{"s/a": 1}, "", cpus{"s/a": 3}},
		"beside one deep below":                     {cpus{"s": 4, "s/b/c/d": 1}, cpus{"s/a": 1}, "", cpus{"s/a": 3}},
		"below a group that follows it":             {cpus{"s": 4, "s/t": 3}, cpus{"s/t/a": 1}, "", cpus{"s/t/a": 3}},
		"beside one in its pod":                     {cpus{"s": 4, "s/t/b": 1}, cpus{"s/t/a": 1}, "", cpus{"s/t/a": 3}},
		"a quota that is not known":                 {cpus{"s": -1}, cpus{"s/a": 1}, "", cpus{"s/a": 0}},
		"beside a quota that is not known":          {cpus{"s": 4, "s/b": -1}, cpus{"s/a": 1}, "", cpus{"s/a": 1}},
		"beside a limit that is not known":          {cpus{"s": 4}, cpus{"s/a": 1, "s/b": -1}, "s/b", cpus{"s/a": 1}},
		"beside one between that is not known":      {cpus{"s": 8, "s/t": -1, "s/u": 4}, cpus{"s/a": 1, "s/t/b": 1, "s/u/a": 1}, "", cpus{"s/a": 1, "s/t/b": 0, "s/u/a": 1}},
		"beside one with one that is not known":     {cpus{"s": 8, "s/t": 3, "s/t/b": -1}, cpus{"s/t/a": 1, "s/c": 1}, "", cpus{"s/t/a": 1, "s/c": 5}},
		"its limit is not known":                    {cpus{"s": 4}, cpus{"s/a": 0}, "", cpus{"s/a": 0}},
	} {
		t.Run(name, func(t *testing.T) {
			n := node{quotas: c.quotas, limits: c.limits, still: c.still}
			b := n.bounds()
			for _, m := range n.members(true) {
				got, where := b.Of(m.Path)
				if want, named := c.want[m.Path]; named && got != want {
					t.Errorf("%s: %v by %q, want %v", m.Path, got, where, want)
				}
			}
		})
	}
}

// TestBoundsLeaveOthersTheirLimits lets all bursting workloads rise to their bounds at once. Every workload and every
// group with a quota that could use its limit before must still be able to, below each group above it.
func TestBoundsLeaveOthersTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.IntRange(1, 16)
		n := node{quotas: map[string]unit.CPUs{}, limits: map[string]unit.CPUs{}}
		draw := func(into map[string]unit.CPUs, what string, paths ...string) {
			for _, path := range paths {
				if rapid.Bool().Draw(t, what+" of "+path) {
					into[path] = unit.CPUs(amount.Draw(t, path))
				}
			}
		}
		draw(n.quotas, "quota", "s", "s/t", "s/u", "s/b", "s/t/c", "s/t/v")
		draw(n.limits, "limit", "s/a", "s/t/a", "s/t/b", "s/t/v/a", "s/t/v/b", "s/u/a", "s/u/b")
		n.still = rapid.SampledFrom([]string{"", "s/a", "s/t/a", "s/t/v/a"}).Draw(t, "does not burst")
		b := n.bounds()
		limit := func(m burst.Member) unit.CPUs { return m.Limit }
		bound := func(m burst.Member) unit.CPUs {
			if !m.Bursts {
				return m.Limit
			}
			most, _ := b.Of(m.Path)
			return most
		}
		for path, quota := range n.quotas {
			for _, m := range n.members(true) {
				if most := bound(m); strings.HasPrefix(m.Path, path+"/") && most > quota {
					t.Fatalf("%s may have %v of the %v of %s", m.Path, most, quota, path)
				}
			}
			for one, own := range n.everybody() {
				least := n.below(path, one, own, limit)
				if most := n.below(path, one, own, bound); most > max(least, quota)+1e-9 {
					t.Fatalf("with %v of %q all below %s may have %v, and it has %v: %v before", own, one, path, most, quota, least)
				}
			}
		}
		for _, m := range n.members(true) {
			if most := bound(m); most < n.leastAbove(m) {
				t.Fatalf("%s with the limit %v may have %v", m.Path, m.Limit, most)
			}
		}
	})
}

// everybody returns all workloads and groups with their limits, and the empty path.
func (n *node) everybody() map[string]unit.CPUs {
	all := map[string]unit.CPUs{"": 0}
	maps.Copy(all, n.quotas)
	maps.Copy(all, n.limits)
	return all
}

// below returns the sum of the CPUs of all groups below a group, where a workload has what of returns, and one of them
// has its limit.
func (n *node) below(path, one string, own unit.CPUs, of func(burst.Member) unit.CPUs) (sum unit.CPUs) {
	for _, child := range n.children(path) {
		var has unit.CPUs
		limit, is := n.limits[child]
		quota := n.quotas[child]
		switch {
		case child == one:
			has = own
		case is:
			has = of(burst.Member{Path: child, Limit: limit, Bursts: child != n.still})
		case len(n.children(child)) == 0:
			has = quota
		default:
			has = n.below(child, one, own, of)
		}
		if quota > 0 {
			has = min(has, quota)
		}
		sum += has
	}
	return sum
}

// leastAbove returns the limit of a workload, as far as the quotas above permit it.
func (n *node) leastAbove(m burst.Member) unit.CPUs {
	least := m.Limit
	for path, quota := range n.quotas {
		if strings.HasPrefix(m.Path, path+"/") {
			least = min(least, quota)
		}
	}
	return least
}

// TestBoundsReadLittle checks that nothing else is requested if no group above has a quota, and that no group is read
// twice.
func TestBoundsReadLittle(t *testing.T) {
	n := node{limits: map[string]unit.CPUs{"s/t/a": 1, "s/t/b": 1, "s/c": 1}, still: "s/c"}
	if n.bounds(); n.asked != 0 || n.read != 2 {
		t.Errorf("asked %d times for the others, and read %d quotas; want 0 and 2", n.asked, n.read)
	}
}

// TestBoundsStopAtLimits checks that groups below a limit are not examined: neither below a workload, nor below a group
// that nobody follows.
func TestBoundsStopAtLimits(t *testing.T) {
	n := node{
		quotas: map[string]unit.CPUs{"s": 8, "s/a/in": 1, "s/a/in/deep": 1, "s/b/in": 1, "s/c/in": 1, "s/t/in": 1, "s/d": 1, "s/d/in": 1},
		limits: map[string]unit.CPUs{"s/a": 1, "s/b": 1, "s/c": 0, "s/t/e": 1}, still: "s/b",
	}
	b := n.bounds()
	if n.found != 3 { // s/c/in, s/t/in and s/d
		t.Errorf("read %d quotas of groups that were found, want 3", n.found)
	}
	if got, _ := b.Of("s/a"); got != 2 { // 8 minus 6, divided between s/a and s/t/e
		t.Errorf("leaves %v, want 2", got)
	}
}

// TestCapFallsAtOnceAndRisesLate checks that a lower remainder of a group above takes effect at once, and a higher one
// only after a while. Otherwise every workload that starts or ends beside a group would cause a write of its quota.
func TestCapFallsAtOnceAndRisesLate(t *testing.T) {
	g := container("app", 100000)
	g.Facts.Cap, g.Facts.Ceiling = 0, 1.5
	beside := func(claim unit.CPUs) *burst.Bounds {
		n := node{quotas: map[string]unit.CPUs{"s": 2}, limits: map[string]unit.CPUs{"s/app": 0.5, "s/other": claim}, still: "s/other"}
		return n.bounds()
	}
	for _, c := range []struct {
		at     int
		claim  unit.CPUs
		want   unit.CPUs
		lowers bool
	}{
		{0, 1, 1, false},
		{1, 1.25, 0.75, true},
		{2, 0, 0.75, true},
		{3, 0.75, 0.75, true},
		{4, 0, 0.75, true},
		{11, 0, 0.75, true},
		{12, 0, 1.25, false}, // the minimum of the ten seconds
		{13, 0, 1.25, false},
		{14, 1, 1, false},
		{23, 0, 1, false},
		{24, 1, 1, false}, // restarts
		{25, 0, 1, false},
		{34, 0, 1, false},
		{35, 0, 2, false},
	} {
		g.TakeCap(time.Duration(c.at)*time.Second, beside(c.claim), "s/app")
		if got := g.Facts.Cap; got != c.want || g.MustLower() != c.lowers {
			t.Errorf("at %d s: cap %v, must lower %v; want %v, %v", c.at, got, g.MustLower(), c.want, c.lowers)
		}
	}
}

// TestClaimIsKept checks that a group whose limit is unknown for a moment still claims its last limit.
func TestClaimIsKept(t *testing.T) {
	g := container("app", 100000)
	g.Claim()
	if g.Facts.LimitQuota = 0; g.Claim() != 0.5 {
		t.Errorf("claims %v, want its last limit, 0.5", g.Claim())
	}
}
