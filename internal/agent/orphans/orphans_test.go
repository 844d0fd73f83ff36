package orphans

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

func entry(group string, k cgroup.Knob, owner plan.Owner, original, stands string) journal.Entry {
	return journal.Entry{Target: cgroupfile.Target(group, k), ID: "1", Owner: owner, Original: plan.Value(original), Intent: plan.Value(stands)}
}

// show returns the result of Of as text: the entries to restore, then the lists to widen.
func show(entries []journal.Entry, owner plan.Owner, stands map[plan.Target]plan.Value) string {
	restore, widen := Of(entries, owner, stands)
	var all []string
	for _, e := range entries {
		if restore(e) {
			all = append(all, e.Target.Object+" "+e.Target.Knob)
		}
	}
	for _, c := range widen {
		all = append(all, c.String())
	}
	return strings.Join(all, "; ")
}

// TestOf checks that groups that shrank for offline work widen with it. Beside pinned groups, each side gets the CPUs
// of both sides that it had before Berth, and no others.
func TestOf(t *testing.T) {
	t.Parallel()
	inherit := string(cgroup.Inherit)
	burst := entry("shop", cgroup.KnobMax, plan.OwnerBurst, "100000 100000", "300000 100000")
	offline := []journal.Entry{
		entry("batch", cgroup.KnobCPUs, plan.OwnerIsolate, inherit, "4-7"),
		entry("batch", cgroup.KnobPrecedence, plan.OwnerIsolate, "weight 100", "idle"),
		entry("web", cgroup.KnobCPUs, plan.OwnerPool, inherit, "2-3"),
		entry("bound", cgroup.KnobCPUs, plan.OwnerPool, "0-4", "2-3"),
		burst,
	}
	pinned := append(slices.Clone(offline), entry("db", cgroup.KnobCPUs, plan.OwnerPlace, inherit, "0-1"), entry("db", cgroup.KnobMax, plan.OwnerPlace, "200000 100000", "max 100000"))
	beside := []journal.Entry{
		entry("batch", cgroup.KnobPrecedence, plan.OwnerIsolate, "weight 100", "idle"), pinned[5],
		entry("web", cgroup.KnobCPUs, plan.OwnerPool, inherit, "2-7"),
	}
	for name, test := range map[string]struct {
		entries []journal.Entry
		owner   plan.Owner
		want    string
	}{
		"burst":                     {pinned, plan.OwnerBurst, "shop cpu.max"},
		"pool":                      {offline, plan.OwnerPool, "web cpuset.cpus; bound cpuset.cpus"},
		"offline work":              {offline, plan.OwnerIsolate, "batch cpuset.cpus; batch precedence; web cpuset.cpus; bound cpuset.cpus"},
		"none":                      {[]journal.Entry{burst, offline[2]}, plan.OwnerIsolate, ""},
		"beside pinned groups":      {pinned, plan.OwnerIsolate, "batch precedence; batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 2-3 -> 2-7; bound cpuset.cpus: 2-3 -> 2-4"},
		"pinned a moment ago":       {[]journal.Entry{pinned[5], offline[0], entry("web", cgroup.KnobCPUs, plan.OwnerPool, inherit, "0-3")}, plan.OwnerIsolate, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 0-3 -> 2-7"},
		"precedence alone":          {beside, plan.OwnerIsolate, "batch precedence"},
		"journaled and not written": {[]journal.Entry{pinned[5], entry("batch", cgroup.KnobCPUs, plan.OwnerIsolate, inherit, "")}, plan.OwnerIsolate, "batch cpuset.cpus"},
		"damaged": {
			[]journal.Entry{pinned[5], offline[0], entry("web", cgroup.KnobCPUs, plan.OwnerPool, "x", "2-3")},
			plan.OwnerIsolate,
			"batch cpuset.cpus: 4-7 -> 2-7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := show(test.entries, test.owner, nil); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestOfWhatStands checks that both sides widen from the current values if an intent was journaled but not written. The
// CPUs that a pinned group has or is about to get stay out of the result. CPUs that it never had exclusively do not.
func TestOfWhatStands(t *testing.T) {
	t.Parallel()
	inherit := string(cgroup.Inherit)
	batch, web := cgroupfile.Target("batch", cgroup.KnobCPUs), cgroupfile.Target("web", cgroup.KnobCPUs)
	db := cgroupfile.Target("db", cgroup.KnobCPUs)
	entries := func(isolate, pool, place string) []journal.Entry {
		return []journal.Entry{
			entry("batch", cgroup.KnobCPUs, plan.OwnerIsolate, inherit, isolate),
			entry("web", cgroup.KnobCPUs, plan.OwnerPool, inherit, pool),
			entry("db", cgroup.KnobCPUs, plan.OwnerPlace, inherit, place),
		}
	}
	owned := entries("4-7", "2-3", "0")
	owned[2].Owned = true
	for name, test := range map[string]struct {
		entries []journal.Entry
		stands  map[plan.Target]plan.Value
		want    string
	}{
		"the boundary was to move":       {entries("6-7", "2-5", "0-1"), map[plan.Target]plan.Value{batch: "4-7", web: "2-3"}, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 2-3 -> 2-7"},
		"one side was to widen":          {entries("4-7", "2-7", "0-1"), map[plan.Target]plan.Value{batch: "4-7", web: "2-3"}, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 2-3 -> 2-7"},
		"it was to end":                  {entries(inherit, inherit, "0-1"), map[plan.Target]plan.Value{batch: "4-7", web: "2-3"}, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 2-3 -> 2-7"},
		"it was to begin":                {entries("4-7", "2-3", "0-1"), map[plan.Target]plan.Value{batch: plan.Value(inherit), web: "2-7"}, "batch cpuset.cpus: " + inherit + " -> 2-7"},
		"a pin was to narrow":            {owned, map[plan.Target]plan.Value{batch: "4-7", web: "2-3", db: "0-2"}, "batch cpuset.cpus: 4-7 -> 3-7; web cpuset.cpus: 2-3 -> 3-7"},
		"a pin was to begin":             {entries("4-7", "2-3", "0-1"), map[plan.Target]plan.Value{batch: "4-7", web: "0-3", db: "0-3"}, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 0-3 -> 2-7"},
		"another writer's: as journaled": {entries("4-7", "2-3", "0-1"), map[plan.Target]plan.Value{batch: "4-7"}, "batch cpuset.cpus: 4-7 -> 2-7; web cpuset.cpus: 2-3 -> 2-7"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := show(test.entries, plan.OwnerIsolate, test.stands); got != test.want {
				t.Errorf("%s, want %s", got, test.want)
			}
		})
	}
}

// TestNobodyIsHarmed checks that no group gets an exclusive CPU or a CPU that it did not have before Berth, and that no
// group loses a CPU that is not exclusive.
func TestNobodyIsHarmed(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		owners := []plan.Owner{plan.OwnerPlace, plan.OwnerPool, plan.OwnerIsolate}
		sides := map[plan.Owner]cpuset.Set{}
		for cpu := range 8 {
			owner := rapid.SampledFrom(owners).Draw(t, "owner of a CPU")
			sides[owner] = sides[owner].Add(cpu)
		}
		var entries []journal.Entry
		for _, owner := range rapid.SliceOfN(rapid.SampledFrom(owners), 1, 6).Draw(t, "groups") {
			had := cpuset.Set{}
			for cpu := range 8 {
				if rapid.Bool().Draw(t, "had") {
					had = had.Add(cpu)
				}
			}
			side := sides[owner]
			if owner == plan.OwnerPool && rapid.Bool().Draw(t, "is from before a group was pinned") {
				side = side.Union(sides[plan.OwnerPlace])
			}
			if has := had.Intersect(side); !has.IsEmpty() {
				entries = append(entries, entry("group", cgroup.KnobCPUs, owner, had.String(), has.String()))
				entries[len(entries)-1].Target.Object += string(rune('a' + len(entries)))
			}
		}
		at, exclusive := map[plan.Target]journal.Entry{}, cpuset.Set{}
		for _, e := range entries {
			at[e.Target] = e
			if e.Owner == plan.OwnerPlace {
				is, _, _ := cgroup.Value(e.Intent).List()
				exclusive = exclusive.Union(is)
			}
		}
		restore, widen := Of(entries, plan.OwnerIsolate, nil)
		pinned := slices.ContainsFunc(entries, of(plan.OwnerPlace))
		for _, e := range entries {
			if restore(e) && (pinned || e.Owner == plan.OwnerPlace) {
				t.Errorf("%v goes back beside pinned groups", e.Target)
			}
		}
		for _, c := range widen {
			e := at[c.Target]
			gets, _, _ := cgroup.Value(c.Value).List()
			had, _, _ := cgroup.Value(e.Original).List()
			has, _, _ := cgroup.Value(e.Intent).List()
			if gets.Intersects(exclusive) || !gets.IsSubsetOf(had) || !has.Difference(exclusive).IsSubsetOf(gets) || e.Owner == plan.OwnerPlace {
				t.Errorf("%v of %v, exclusive %s", c, e, exclusive)
			}
		}
	})
}
