package trial

import (
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/framework"

	"github.com/berth-project/berth/internal/scheduler/schedule"
)

// The configurations that Berth ships, by mode.
const (
	sideBySide = "../../../../deploy/scheduler/side-by-side.yaml"
	replace    = "../../../../deploy/scheduler/replace.yaml"
)

// binders returns the Bind plugins of a profile in the order in which the scheduler calls them.
func (c *cluster) binders(cfg *config.KubeSchedulerConfiguration, profile string) []string {
	c.Helper()
	s := c.build(c.Context(), cfg, registry())
	var names []string
	for _, p := range s.Profiles[profile].ListPlugins().Bind.Enabled {
		names = append(names, p.Name)
	}
	return names
}

// TestShippedProfiles checks every shipped configuration with the scheduler's own strict decoder. In each profile Berth
// binds before DefaultBinder and outweighs the scores that consider only amounts. Leader election is on.
func TestShippedProfiles(t *testing.T) {
	for file, want := range map[string][]string{
		sideBySide: {schedulerName},
		replace:    {schedulerName, "default-scheduler"},
	} {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c := newCluster(t)
			cfg := configFrom(t, file)
			s := c.build(c.Context(), cfg, registry())
			if got := slices.Sorted(maps.Keys(s.Profiles)); !slices.Equal(got, slices.Sorted(slices.Values(want))) {
				t.Fatalf("profiles %v, want %v", got, want)
			}
			for name, f := range s.Profiles {
				checkProfile(t, name, f)
			}
			if !cfg.LeaderElection.LeaderElect {
				t.Error("no leader election: two replicas would give the same CPUs")
			}
		})
	}
}

func checkProfile(t *testing.T, name string, f framework.Framework) {
	t.Helper()
	weights := map[string]int32{}
	for _, p := range f.ListPlugins().Score.Enabled {
		weights[p.Name] = p.Weight
	}
	for _, other := range []string{"NodeResourcesFit", "NodeResourcesBalancedAllocation", "ImageLocality"} {
		if weights[schedule.Name] <= weights[other] {
			t.Errorf("profile %s: Berth's score weighs %d, that of %s %d", name, weights[schedule.Name], other, weights[other])
		}
	}
	var binders []string
	for _, p := range f.ListPlugins().Bind.Enabled {
		binders = append(binders, p.Name)
	}
	if want := []string{schedule.Name, "DefaultBinder"}; !slices.Equal(binders, want) {
		t.Errorf("profile %s binds with %v, want %v", name, binders, want)
	}
}

// TestProfilesShareOneView checks that the profiles share one view in the mode REPLACE. A CPU of a pod of one profile
// goes to no pod of the other profile. The accounting rule also applies to pods of the default scheduler's profile.
func TestProfilesShareOneView(t *testing.T) {
	c := newCluster(t)
	c.addMachine("n0", small())
	c.schedule(configFrom(t, replace), registry())
	for i := range 30 {
		p := pinned(name("p", i), 1, 1)
		if i%2 == 0 {
			p.Spec.SchedulerName = "default-scheduler"
		}
		c.create(p)
	}
	c.until("22 pods are bound", func() bool { return c.count(bound) == 22 })
	c.audit()
	if n := c.events("CPUPinFailed"); n != 0 {
		t.Errorf("%d pods were bound by another binder", n)
	}
	p := ordinary("ordinary", 2001, 0)
	p.Spec.SchedulerName = "default-scheduler"
	c.create(p)
	t.Log(c.pending("ordinary"))
}

// TestMultiPointAloneBindsTooLate shows why the shipped profiles enable Berth for Bind too. With Berth only in
// multiPoint the scheduler calls DefaultBinder first, because default plugins precede the profile's plugins. The pods
// are then bound without their placement.
func TestMultiPointAloneBindsTooLate(t *testing.T) {
	c := newCluster(t)
	cfg := configFrom(t, "testdata/multipoint-only.yaml")
	if got, want := c.binders(cfg, schedulerName), []string{"DefaultBinder", schedule.Name}; !slices.Equal(got, want) {
		t.Fatalf("binders are %v; if it is no longer %v the shipped profiles can be shorter", got, want)
	}
	c.addMachine("n0", small())
	c.schedule(cfg, registry())
	c.create(pinned("a", 4, 4))
	if p := c.bound("a"); p.Annotations["berth.dev/placement"] != "" {
		t.Fatalf("DefaultBinder wrote %v", p.Annotations)
	}
	c.until("a CPUPinFailed event", func() bool { return c.events("CPUPinFailed") > 0 })
}
