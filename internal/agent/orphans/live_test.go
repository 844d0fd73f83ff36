package orphans_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/orphans"
	"github.com/berth-project/berth/internal/engine/apply"
	"github.com/berth-project/berth/internal/engine/driver/cgroupfile"
	"github.com/berth-project/berth/internal/engine/journal"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/proof/scratch"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestLiveBoundaryFalls checks that the boundary is removed beside a pinned group, and that no group gets the pinned
// group's CPUs. A rollback then restores every original.
func TestLiveBoundaryFalls(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("real cgroups need root; runs in the VM: make test")
	}
	root, err := hostfs.Open("/")
	must(t, err)
	t.Cleanup(func() { _ = root.Close() })
	host, err := cgroup.Open(root)
	must(t, err)
	top, err := scratch.New(host, "", scratch.Name("test-orphans"))
	must(t, err)
	t.Cleanup(func() { must(t, top.Close()) })
	all, err := top.Handle().EffectiveCPUs()
	must(t, err)
	cpus := slices.Collect(all.All())
	if len(cpus) < 4 {
		t.Skipf("%d CPUs: too few for a pinned group and two sides; runs in the VM: make vm", len(cpus))
	}
	own, online, offline := cpuset.Set{}.Add(cpus[0]), cpuset.Set{}.Add(cpus[1]), all.Difference(cpuset.Set{}.Add(cpus[0]).Add(cpus[1]))

	j, err := journal.Open(t.TempDir(), "boot", cgroupfile.Values())
	must(t, err)
	t.Cleanup(func() { _ = j.Close() })
	a := apply.New(cgroupfile.Kinds(host, nil), j, apply.Options{Now: time.Now})
	var changes []plan.Change
	before := map[plan.Target]plan.Value{}
	for name, one := range map[string]struct {
		owner plan.Owner
		cpus  cpuset.Set
	}{"db": {plan.OwnerPlace, own}, "web": {plan.OwnerPool, online}, "batch": {plan.OwnerIsolate, offline}} {
		g, err := top.Sub(name)
		must(t, err)
		target := cgroupfile.Target(g.Path(), cgroup.KnobCPUs)
		stands := a.Read([]plan.Target{target})[0]
		must(t, stands.Err)
		before[target] = stands.Value
		changes = append(changes, plan.Change{From: stands.Value, Setting: plan.Setting{
			Target: target, ID: stands.ID, Value: plan.Value(cgroup.ListValue(one.cpus)), Owner: one.owner, Workload: name,
		}})
	}
	for _, r := range a.Apply(plan.Order(a.Kinds(), changes)) {
		must(t, r.Err)
	}

	for _, c := range changes { // The agent dies after it journaled a move of the boundary and before it asked systemd.
		if c.Owner != plan.OwnerPlace {
			stands := a.Read([]plan.Target{c.Target})[0]
			must(t, stands.Err)
			c.From, c.Value = stands.Value, plan.Value(cgroup.ListValue(online.Union(offline)))
			must(t, j.Intend(c))
		}
	}
	restore, widen := orphans.Of(j.Entries(), plan.OwnerIsolate, a.Stands(j.Entries()))
	for _, r := range a.Apply(plan.Order(a.Kinds(), widen)) {
		must(t, r.Err)
	}
	if left := a.Restore(restore, false); len(left) > 0 {
		t.Errorf("put back beside a pinned group: %+v", left)
	}
	both := plan.Value(cgroup.ListValue(online.Union(offline)))
	for _, e := range j.Entries() {
		want := both
		if e.Owner == plan.OwnerPlace {
			want = plan.Value(cgroup.ListValue(own))
		}
		if now := a.Read([]plan.Target{e.Target})[0]; now.Err != nil || now.Value != want {
			t.Errorf("%s of %s is %q, %v, want %q", e.Target, e.Owner, now.Value, now.Err, want)
		}
	}
	for _, r := range a.Restore(nil, false) {
		if r.Err != nil || r.Outcome != apply.OutcomeRestored {
			t.Errorf("%+v", r)
		}
	}
	for target, want := range before {
		if now := a.Read([]plan.Target{target})[0]; now.Err != nil || now.Value != want {
			t.Errorf("in the end %s is %q, %v, want %q", target, now.Value, now.Err, want)
		}
	}
}
