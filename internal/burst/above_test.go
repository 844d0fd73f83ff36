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

// members are the groups that limits names, of which all burst but one.
func members(limits map[string]unit.CPUs, still string) []burst.Member {
	var all []burst.Member
	for _, path := range slices.Sorted(maps.Keys(limits)) {
		all = append(all, burst.Member{Path: path, Above: above(path), Bursts: path != still})
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
		still          string // does not burst
		want           cpus
	}{
		"no quota above":                        {nil, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": inf, "s/b": inf}},
		"alone":                                 {cpus{"s": 4}, cpus{"s/a": 1}, "", cpus{"s/a": 4}},
		"beside one that does not":              {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 2}, "s/b", cpus{"s/a": 2}},
		"two that burst":                        {cpus{"s": 6}, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": 2, "s/b": 4}},
		"two, beside one that does":             {cpus{"s": 7}, cpus{"s/a": 1, "s/b": 1, "s/c": 3}, "s/c", cpus{"s/a": 2, "s/b": 2}},
		"more limits than quota":                {cpus{"s": 2}, cpus{"s/a": 1, "s/b": 2}, "", cpus{"s/a": 1, "s/b": 2}},
		"a limit above the quota":               {cpus{"s": 2}, cpus{"s/a": 3}, "", cpus{"s/a": 2}},
		"one without a limit":                   {cpus{"s": 4}, cpus{"s/a": 1, "s/b": 0}, "", cpus{"s/a": 4}},
		"further up":                            {cpus{"s": 4, "s/t": 4}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, "", cpus{"s/t/a": 1, "s/c": 2}},
		"further up, with room":                 {cpus{"s": 8, "s/t": 3}, cpus{"s/t/a": 1, "s/t/b": 1, "s/c": 2}, "", cpus{"s/t/a": 1.5, "s/c": 4}},
		"below another workload":                {cpus{"s": 10, "s/a": 3}, cpus{"s/a": 3, "s/a/x": 1, "s/a/y": 2, "s/b": 2}, "", cpus{"s/a": 6, "s/a/x": 1, "s/a/y": 2, "s/b": 4}},
		"below one that stands above its limit": {cpus{"s/a": 6}, cpus{"s/a": 3, "s/a/x": 1}, "", cpus{"s/a/x": 3}},
		"below one that has no more":            {cpus{"s": 4, "s/a": 3}, cpus{"s/a": 3, "s/a/x": 1, "s/b": 1}, "", cpus{"s/a": 3, "s/a/x": 3, "s/b": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			all := members(c.limits, c.still)
			b := burst.BoundsOf(all, in(c.quotas), in(c.limits))
			for _, m := range all {
				got, where := b.Of(m.Path)
				if want, named := c.want[m.Path]; named && got != want {
					t.Errorf("%s: %v by %q, want %v", m.Path, got, where, want)
				}
			}
		})
	}
}

// Where all that burst rise to their bounds at once, all others have their limits, in each group whose quota has
// room for all limits below.
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
		all := members(limits, rapid.SampledFrom([]string{"", "s/a", "s/t/a"}).Draw(t, "does not burst"))
		b := burst.BoundsOf(all, in(quotas), in(limits))
		for path, quota := range quotas {
			least, most := unit.CPUs(0), unit.CPUs(0)
			for _, m := range all {
				if !strings.HasPrefix(m.Path, path+"/") {
					continue
				}
				bound, _ := b.Of(m.Path)
				if !m.Bursts {
					bound = limits[m.Path]
				}
				least, most = least+limits[m.Path], most+bound
				if m.Bursts && (bound > quota || bound < min(limits[m.Path], leastAbove(quotas, m))) {
					t.Fatalf("%s with the limit %v may have %v of the %v of %s", m.Path, limits[m.Path], bound, quota, path)
				}
			}
			if least <= quota && most > quota+1e-9 {
				t.Fatalf("all below %s may have %v, and it has %v", path, most, quota)
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
