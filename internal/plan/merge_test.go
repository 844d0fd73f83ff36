package plan

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/internal/cgroup"
)

func setting(group string, value cgroup.Value, owner Owner, workload string) Setting {
	return Setting{Target: Target{Group: group, Knob: cgroup.KnobMax}, Value: value, Owner: owner, Workload: workload}
}

func TestMerge(t *testing.T) {
	burst := setting("a", "200000 100000", OwnerBurst, "redis")
	other := setting("a", "300000 100000", "zeal", "redis")
	twin := setting("a", "250000 100000", OwnerBurst, "nginx")
	doubled := setting("a", "400000 200000", OwnerBurst, "redis")
	tests := []struct {
		name      string
		settings  []Setting
		merged    []Setting
		conflicts []Conflict
	}{
		{name: "nothing"},
		{"one", []Setting{burst}, []Setting{burst}, nil},
		{"the same twice", []Setting{burst, burst}, []Setting{burst}, nil},
		{"the same, scaled", []Setting{burst, doubled}, []Setting{burst}, nil},
		{
			"sorted by target",
			[]Setting{setting("b", "max 100000", OwnerBurst, "x"), burst},
			[]Setting{burst, setting("b", "max 100000", OwnerBurst, "x")},
			nil,
		},
		{
			"higher rank wins",
			[]Setting{other, burst},
			[]Setting{burst},
			[]Conflict{{Target: burst.Target, Winner: OwnerBurst, Refused: []Setting{other}}},
		},
		{
			"equal rank: nobody",
			[]Setting{burst, twin},
			nil,
			[]Conflict{{Target: burst.Target, Refused: []Setting{twin, burst}}},
		},
		{
			"equal rank and a lower one: nobody",
			[]Setting{other, burst, twin},
			nil,
			[]Conflict{{Target: burst.Target, Refused: []Setting{twin, burst, other}}},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			merged, conflicts := Merge(tt.settings)
			if d := cmp.Diff(tt.merged, merged); d != "" {
				t.Errorf("merged (-want +got):\n%s", d)
			}
			if d := cmp.Diff(tt.conflicts, conflicts); d != "" {
				t.Errorf("conflicts (-want +got):\n%s", d)
			}
		})
	}
}

func TestMergeOrderOfInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		settings := rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Setting {
			return setting(
				rapid.SampledFrom([]string{"a", "b"}).Draw(t, "group"),
				rapid.SampledFrom([]cgroup.Value{"max 100000", "100000 100000", "200000 100000"}).Draw(t, "value"),
				rapid.SampledFrom([]Owner{OwnerBurst, "x", "y"}).Draw(t, "owner"),
				rapid.SampledFrom([]string{"w", "v"}).Draw(t, "workload"))
		}), 0, 6).Draw(t, "settings")
		before := slices.Clone(settings)
		merged, conflicts := Merge(settings)
		if d := cmp.Diff(before, settings); d != "" {
			t.Fatalf("the argument changed:\n%s", d)
		}
		shuffledMerged, shuffledConflicts := Merge(rapid.Permutation(settings).Draw(t, "shuffled"))
		if d := cmp.Diff(merged, shuffledMerged); d != "" {
			t.Fatalf("merged depends on the order:\n%s", d)
		}
		if d := cmp.Diff(conflicts, shuffledConflicts); d != "" {
			t.Fatalf("conflicts depend on the order:\n%s", d)
		}
		for i := 1; i < len(merged); i++ {
			if merged[i].Target == merged[i-1].Target {
				t.Fatalf("two settings for %s", merged[i].Target)
			}
		}
	})
}

func TestDiff(t *testing.T) {
	wanted := []Setting{
		setting("moved", "200000 100000", OwnerBurst, "w"),
		setting("stands", "200000 100000", OwnerBurst, "w"),
		setting("doubled", "200000 100000", OwnerBurst, "w"),
		setting("unseen", "200000 100000", OwnerBurst, "w"),
	}
	observed := map[Target]cgroup.Value{
		wanted[0].Target: "100000 100000",
		wanted[1].Target: "200000 100000",
		wanted[2].Target: "400000 200000",
	}
	want := []Change{{Setting: wanted[0], From: "100000 100000"}}
	if d := cmp.Diff(want, Diff(wanted, observed)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOwnersRank(t *testing.T) {
	for i, o := range Owners() {
		if rank(o) != i {
			t.Errorf("rank(%s) = %d, want %d", o, rank(o), i)
		}
	}
	if rank("nobody") <= rank(OwnerBurst) {
		t.Error("an unknown owner outranks a known one")
	}
}
