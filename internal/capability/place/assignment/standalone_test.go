package assignment_test

import (
	"testing"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// limits is a host on which groups have limits of their own.
type limits struct {
	host

	of map[string]unit.CPUs
}

func (l limits) OriginalLimit(group string) unit.CPUs { return l.of[group] }

// A workload whose file has no limit gets CPUs for its group's own limit, and follows when an administrator changes it.
func TestLimitOfTheGroup(t *testing.T) {
	h := limits{host{map[string]cpuset.Set{}}, map[string]unit.CPUs{"w.service": 2, "other.service": 3}}
	n := newNode(h, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
	n.SetStandalone([]workload.Workload{
		{Name: "w", Cgroup: "w.service", Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}},
		{Name: "named", Cgroup: "named.service", Limit: 1, Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}},
		{Name: "other", Cgroup: "other.service"},
	}, nil)
	has := func(want int) {
		t.Helper()
		got := wantsOf(n)
		if own := set(got["w.service"]); own.Size() != want || set(got["named.service"]).Size() != 1 {
			t.Errorf("limit %g: desired %v", h.of["w.service"], got)
		}
		if own := set(got["other.service"]); own.Intersects(set(got["w.service"])) {
			t.Errorf("what is not pinned is on %s", own)
		}
	}
	has(2)
	h.of["w.service"] = 4
	n.FollowLimits()
	has(4)
}

// A group that only shrinks to the pool has no exclusive CPUs, even if it was a pinned workload earlier. It must not
// exclude other such groups from them.
func TestPoolGroupThatWasAWorkload(t *testing.T) {
	n := newNode(host{map[string]cpuset.Set{"batch.slice": set("2,6")}}, workload.AdministratorOf("agent.yaml", v1alpha1.AgentConfig{}))
	n.SetFacts(place.Facts{Machine: machine(t), Hash: "0123456789abcdef", AllocatableMilli: 8000})
	n.SetStandalone(nil, []string{"batch.slice", "user.slice"})
	if got := wantsOf(n); len(got) != 0 {
		t.Errorf("desired %v", got)
	}
	n.SetStandalone([]workload.Workload{
		{Name: "w", Cgroup: "w.service", Limit: 2, Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}},
	}, []string{"batch.slice", "user.slice"})
	got := wantsOf(n)
	own := set(got["w.service"])
	for _, group := range []string{"batch.slice", "user.slice"} {
		if pool := set(got[group]); own.Size() != 2 || pool != set("0-7").Difference(own) {
			t.Errorf("%s: desired %v", group, got)
		}
	}
}
