package trial

import (
	"testing"

	v1 "k8s.io/api/core/v1"
	"k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler/framework/runtime"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// TestProfileSpreadsCPUs checks that a strategy of the profile applies to the pods of this profile only, and not to a
// pod that names one.
func TestProfileSpreadsCPUs(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	f := &schedule.Factory{Strategies: map[string]v1alpha1.NUMAAllocateStrategy{"default-scheduler": v1alpha1.NUMALeastAllocated}}
	f.Register = func(metrics.Registerable) error { return nil }
	c.schedule(configFrom(t, replace), runtime.Registry{schedule.Name: f.New})
	spreads := func(name string) *v1.Pod {
		p := pinned(name, 2, 2)
		p.Spec.SchedulerName = "default-scheduler"
		return p
	}
	c.create(pinned("first", 2, 2))
	c.expect("first", "n0", "0-1", "0-1")
	c.create(pinned("packs", 2, 2))
	c.expect("packs", "n0", "2-3", "0-1")
	c.create(spreads("spreads"))
	c.expect("spreads", "n0", "12-13", "0-1")
	named := spreads("names")
	named.Annotations["scheduling.koordinator.sh/numa-topology-spec"] = `{"numaAllocateStrategy":"MostAllocated"}`
	c.create(named)
	c.expect("names", "n0", "14-15", "0-1")
	c.audit()
}
