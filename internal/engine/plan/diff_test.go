package plan

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
)

func TestDiff(t *testing.T) {
	setting := func(group string) Setting {
		return Setting{
			Target: fileTarget(group, cgroup.KnobMax), ID: "1:2",
			Value: "200000 100000", Owner: OwnerBurst, Workload: "w",
		}
	}
	wanted := []Setting{setting("moved"), setting("stands"), setting("doubled"), setting("unseen")}
	observed := map[Target]Value{
		wanted[0].Target: "100000 100000",
		wanted[1].Target: "200000 100000",
		wanted[2].Target: "400000 200000",
	}
	want := []Change{{Setting: wanted[0], From: "100000 100000"}}
	if d := cmp.Diff(want, Diff(kinds(), wanted, observed)); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
