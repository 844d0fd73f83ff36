package place_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/value/unit"
)

// Settings lists the CPUs first, then the memory nodes, then the quota. CPUs of the shared pool have a different owner.
func TestSettings(t *testing.T) {
	setting := func(group, knob string, value plan.Value, owner plan.Owner) plan.Setting {
		return plan.Setting{
			Target: plan.Target{Driver: "cgroup", Object: group, Knob: knob}, Value: value,
			Owner: owner, Workload: "ns/p", Why: "so",
		}
	}
	exclusive := place.Desired{
		Group: "p/c", Made: true, Limit: 2, CPUs: set(t, "1,9"), Mems: set(t, "0"), Pinned: true, NoQuota: true, Serves: "ns/p", Why: "so",
	}
	initial, pool := exclusive, exclusive
	initial.NoQuota, initial.Mems = false, set(t, "")
	pool.Made, pool.Pinned, pool.NoQuota, pool.Mems = false, false, false, set(t, "")
	made := plan.Writers{Made: true}
	for name, c := range map[string]struct{ got, want []plan.Desired }{
		"exclusive CPUs": {exclusive.Settings(), []plan.Desired{
			{Setting: setting("p/c", "cpuset.cpus", "1,9", plan.OwnerPlace), Below: true, Writers: made},
			{Setting: setting("p/c", "cpuset.mems", "0", plan.OwnerPlace), Below: true, Writers: made},
			{Setting: setting("p/c", "cpu.max", "max", plan.OwnerPlace), Writers: plan.Writers{Limits: [2]unit.CPUs{2}, Made: true, PutsBack: true}},
		}},
		"with its quota": {initial.Settings(), []plan.Desired{
			{Setting: setting("p/c", "cpuset.cpus", "1,9", plan.OwnerPlace), Below: true, Writers: made},
		}},
		"the shared pool": {pool.Settings(), []plan.Desired{
			{Setting: setting("p/c", "cpuset.cpus", "1,9", plan.OwnerPool), Below: true},
		}},
		"the pod": {place.DesiredPod{Group: "p", NoQuota: true, Serves: "ns/p", Why: "so"}.Settings(), []plan.Desired{
			{Setting: setting("p", "cpu.max", "max", plan.OwnerPlace), Writers: plan.Writers{Owned: true, PutsBack: true}},
		}},
		"a pod with its quota": {place.DesiredPod{Group: "p", Serves: "ns/p"}.Settings(), nil},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
