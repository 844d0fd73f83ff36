package cli

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/journal"
	"github.com/berth-project/berth/internal/plan"
)

// What shrank for offline work widens with it, but not onto the CPUs of pinned groups.
func TestRollbackOfOneOwner(t *testing.T) {
	entry := func(owner plan.Owner, workload string) journal.Entry {
		return journal.Entry{Owner: owner, Workload: workload}
	}
	offline := []journal.Entry{entry(plan.OwnerIsolate, "batch"), entry(plan.OwnerPool, "batch"), entry(plan.OwnerPool, "other"), entry(plan.OwnerBurst, "shop")}
	pinned := append(slices.Clone(offline), entry(plan.OwnerPlace, "db"))
	for _, test := range []struct {
		name    string
		entries []journal.Entry
		owner   plan.Owner
		want    []int
	}{
		{"all", pinned, "", []int{0, 1, 2, 3, 4}},
		{"isolate", offline, plan.OwnerIsolate, []int{0, 1, 2}}, // other work ended since
		{"isolate without any", offline[1:], plan.OwnerIsolate, nil},
		{"isolate beside pinned groups", pinned, plan.OwnerIsolate, []int{0}},
		{"pool", offline, plan.OwnerPool, []int{1, 2}},
		{"burst", offline, plan.OwnerBurst, []int{3}},
	} {
		match := rollbackOptions{owner: test.owner}.match(test.entries)
		var got []int
		for i, e := range test.entries {
			if match(e) {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, test.want) {
			t.Errorf("%s: entries %v, want %v", test.name, got, test.want)
		}
	}
}
