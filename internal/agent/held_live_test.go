package agent_test

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/capability/tune/tuner"
	"github.com/berth-project/berth/internal/engine/driver"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/kernel"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// A list that a host profile has set stays the profile's, and status names the profile. The workload gets its CPU after
// the profile is rolled back.
func TestLiveHostProfileHasTheList(t *testing.T) {
	p := newPair(t, "held")
	p.hurries()
	all := p.cpusOf(p.group)
	boot, err := kernel.BootID(p.root)
	if err != nil {
		t.Fatal(err)
	}
	profiles, err := journal.Open(filepath.Join(p.dir, "state", tuner.Subdir), boot, driver.Values())
	if err != nil {
		t.Fatal(err)
	}
	defer profiles.Close()
	g, err := p.host.Group(p.group.Path())
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	id, err := g.ID(cgroup.CPUSet)
	if err != nil {
		t.Fatal(err)
	}
	target := cgroupfile.Target(p.group.Path(), cgroup.KnobCPUs)
	target.Driver = cgroupfile.UnitDriver // the driver that a profile uses
	err = profiles.Begin(journal.Entry{
		Target: target, ID: cgroupfile.Identity(id), Original: plan.Value(cgroup.ListValue(all)), Owner: tuner.Owner, Workload: "database", Since: time.Now(),
	})
	if err != nil {
		t.Fatal(err)
	}
	p.asks()
	p.start()
	p.waitReady()
	p.status("the profile is not named", func(text string) bool {
		return strings.Contains(text, "a host profile has set it: database")
	})
	p.passes(2)
	if own := p.cpusOf(p.group); own != all {
		t.Fatalf("the profile's list became %s", own)
	}
	if err := profiles.Forget(target); err != nil {
		t.Fatal(err)
	}
	p.settles("the profile is rolled back", func(own, other cpuset.Set) bool { return own.Size() == 1 && !own.Intersects(other) })
}
