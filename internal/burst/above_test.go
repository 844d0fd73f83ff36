package burst_test

import (
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/burst"
	"github.com/berth-project/berth/internal/unit"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

// members are the groups with a limit, of which all burst; pairs of a path and how many CPUs it may have.
func members(limits map[string]unit.CPUs) []burst.Member {
	var all []burst.Member
	for _, path := range slices.Sorted(maps.Keys(limits)) {
		all = append(all, burst.Member{Path: path, Above: above(path), Bursts: true})
	}
	return all
}

// above returns the paths above one, from its parent up.
func above(path string) []string {
	var all []string
	for at := strings.LastIndexByte(path, '/'); at > 0; at = strings.LastIndexByte(path, '/') {
		path = path[:at]
		all = append(all, path)
	}
	return all
}

// in returns what is known of groups, 0 for the others.
func in(known map[string]unit.CPUs) func(string) unit.CPUs {
	return func(path string) unit.CPUs { return known[path] }
}

func TestBounds(t *testing.T) {
	type cpus = map[string]unit.CPUs
	inf := unit.CPUs(math.Inf(1))
	for name, c := range map[string]struct {
		quotas, limits cpus
		want           cpus
		where          string
	}{
		"no quota above":             {nil, cpus{"s/a": 1, "s/b": 2}, cpus{"s/a": inf, "s/b": inf}, ""},
		"alone":                      {cpus{"s": 4}, cpus{"s/a": 1}, cpus{"s/a": 4}, "s"},
		"beside another":             {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 2}, cpus{"s/a": 2, "s/b": 3}, "s"},
		"more limits than quota":     {cpus{"s": 2}, cpus{"s/a": 1, "s/b": 2}, cpus{"s/a": 1, "s/b": 2}, "s"},
		"a limit above the quota":    {cpus{"s": 2}, cpus{"s/a": 3}, cpus{"s/a": 2}, "s"},
		"one without a limit":        {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 0}, cpus{"s/a": 4}, "s"},
		"further up":                 {cpus{"s": 4, "s/t": 3}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, cpus{"s/t/a": 1, "s/c": 2}, ""},
		"further up, with room":      {cpus{"s": 9, "s/t": 3}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, cpus{"s/t/a": 2, "s/c": 7}, ""},
		"below another workload":     {cpus{"s": 8, "s/a": 3}, cpus{"s/a": 3, "s/a/x": 1, "s/a/y": 1, "s/b": 2}, cpus{"s/a": 6, "s/a/x": 2, "s/b": 5}, ""},
		"below one that has no more": {cpus{"s": 4}, cpus{"s/a": 3, "s/a/x": 1, "s/b": 1}, cpus{"s/a": 3, "s/a/x": 3, "s/b": 1}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			all := members(c.limits)
			b := burst.BoundsOf(all, in(c.quotas), in(c.limits))
			for _, m := range all {
				got, where := b.Of(m.Path)
				if want, asked := c.want[m.Path]; asked && (got != want || c.where != "" && where != c.where) {
					t.Errorf("%s: %v by %q, want %v", m.Path, got, where, want)
				}
			}
		})
	}
}

// One that rises to its bound leaves all others their limits, in each group whose quota has room for all limits below.
func TestBoundsLeaveOthersTheirLimits(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		amount := rapid.IntRange(1, 16)
		quotas, limits := map[string]unit.CPUs{}, map[string]unit.CPUs{}
		for _, path := range []string{"s", "s/t", "s/u"} {
			if rapid.Bool().Draw(t, "quota of "+path) {
				quotas[path] = unit.CPUs(amount.Draw(t, path))
			}
		}
		for _, path := range []string{"s/a", "s/t/a", "s/t/b", "s/u/a", "s/u/b"} {
			if rapid.Bool().Draw(t, "limit of "+path) {
				limits[path] = unit.CPUs(amount.Draw(t, path))
			}
		}
		all := members(limits)
		b := burst.BoundsOf(all, in(quotas), in(limits))
		for _, m := range all {
			bound, _ := b.Of(m.Path)
			for path, quota := range quotas {
				others := unit.CPUs(0)
				for other, limit := range limits {
					if other != m.Path && strings.HasPrefix(other, path+"/") {
						others += limit
					}
				}
				fits := others+limits[m.Path] <= quota
				if strings.HasPrefix(m.Path, path+"/") && fits && bound+others > quota {
					t.Fatalf("%s may have %v: with the %v of others that is more than the %v of %s", m.Path, bound, others, quota, path)
				}
				if strings.HasPrefix(m.Path, path+"/") && bound > quota {
					t.Fatalf("%s may have %v of the %v of %s", m.Path, bound, quota, path)
				}
			}
			if least := min(limits[m.Path], leastAbove(quotas, m)); bound < least {
				t.Fatalf("%s may have %v, less than its limit of %v", m.Path, bound, least)
			}
		}
	})
}

func leastAbove(quotas map[string]unit.CPUs, m burst.Member) unit.CPUs {
	least := unit.CPUs(math.Inf(1))
	for _, path := range m.Above {
		if q, has := quotas[path]; has {
			least = min(least, q)
		}
	}
	return least
}
