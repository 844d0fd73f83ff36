package apply_test

import (
	"maps"
	"testing"

	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/hostfs"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

// coresOf returns the whole cores in a group's effective CPUs.
func coresOf(t *testing.T, host *cgroup.Host, group string) []cpuset.Set {
	t.Helper()
	root, err := hostfs.Open("/")
	must(t, err)
	defer root.Close()
	top, err := topology.Discover(root.FS())
	must(t, err)
	g, err := host.Group(group)
	must(t, err)
	defer g.Close()
	all, err := g.EffectiveCPUs()
	must(t, err)
	var cores []cpuset.Set
	for _, c := range top.Cores {
		if !c.CPUs.IsEmpty() && c.CPUs.IsSubsetOf(all) {
			cores = append(cores, c.CPUs)
		}
	}
	return cores
}

// isolation returns successive settings of isolate, with offline work in top/a and online work in top/b. The offline
// work arrives, grows to its maximum, is narrowed by a surge, loses its core to a pinned pod and gets it back. Its
// quota changes in between, and its pod is resized.
func isolation(cores []cpuset.Set, top string, weight cgroup.Value) [][]plan.Setting {
	a, b := top+"/a", top+"/b"
	sides := func(offline ...int) []plan.Setting {
		var own, others cpuset.Set
		for i, c := range cores {
			others = others.Union(c)
			for _, at := range offline {
				if i == at {
					own = own.Union(c)
				}
			}
		}
		return []plan.Setting{
			listTo(cgroup.KnobCPUs, plan.OwnerIsolate, a, plan.Value(cgroup.ListValue(own))),
			listTo(cgroup.KnobCPUs, plan.OwnerPool, b, plan.Value(cgroup.ListValue(others.Difference(own)))),
		}
	}
	quota := func(quota unit.Micros) plan.Setting {
		s := maxTo(a, quota)
		s.Owner = plan.OwnerIsolate
		return s
	}
	last := len(cores) - 1
	all := [][]plan.Setting{
		append(sides(last), precede(a, cgroup.Idle), quota(2*period)),
		{quota(period), precede(a, weight)},
		{quota(period / 2), precede(a, cgroup.Idle)},
	}
	if last < 2 { // two groups cannot exchange all of their cores without sharing one
		return all
	}
	var most []int
	for i := range cores[1:] {
		most = append(most, i+1)
	}
	return append(all, append(sides(most...), quota(2*period)), append(sides(last), quota(period)), sides(last-1), sides(last))
}

// sides returns a check of the two groups. It fails if they share a core after they were separate.
func sides(t *testing.T, host *cgroup.Host, top string) func() {
	t.Helper()
	return sidesOf(t, host, top, coresOf(t, host, top))
}

// sidesOf is sides for these cores, which may have CPUs that are offline.
func sidesOf(t *testing.T, host *cgroup.Host, top string, cores []cpuset.Set) func() {
	t.Helper()
	apart := false
	return func() {
		var has [2]cpuset.Set
		for i, name := range []string{"a", "b"} {
			g, err := host.Group(top + "/" + name)
			must(t, err)
			has[i], err = g.EffectiveCPUs()
			must(t, err)
			must(t, g.Close())
		}
		was := apart
		apart = true
		for _, c := range cores {
			apart = apart && (!c.Intersects(has[0]) || !c.Intersects(has[1]))
		}
		if was && !apart {
			t.Fatalf("offline work is on CPUs %s, online work on %s", has[0], has[1])
		}
	}
}

// The process is killed between every two steps of the moves of isolate. Once the groups are separate, no core has both
// online and offline work, even if another process starts again. A rollback restores every list, quota and weight.
func TestCrashBetweenIsolateSteps(t *testing.T) {
	l := newLive(t)
	if n := len(coresOf(t, l.host, l.top.Path())); n < 2 {
		t.Skipf("%d core: none can be offline work's alone; runs in the VM: make test", n)
	}
	_, middle, _ := weights(t, l.host)
	must(t, l.a.SetPrecedence(middle))
	l.crashes("isolate", 30, func() map[string]string {
		content := l.lists()
		maps.Copy(content, l.files())
		return content
	}, "isolate-again")
}
