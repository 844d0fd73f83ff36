// Package large gives benchmarks the views of a large node: 512 CPUs and 500 workloads.
package large

import (
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// Sizes of the node. A core has two CPUs.
const (
	cores = 256
	// Workloads is the number of workloads.
	Workloads = 500
)

// Version is the version of the agent in each view.
const Version = "large"

// View returns the view at a moment. The load of each CPU differs a moment later, and so do the quota and a change of
// the first workloads, as many as are busy.
func View(t testing.TB, moment, busy int) *view.View {
	t.Helper()
	f := view.Facts{Version: Version, At: time.Unix(int64(moment), 0).UTC(), LoadSeconds: 1, Loads: make([]float64, 2*cores)}
	for cpu := range f.Loads {
		f.Loads[cpu] = float64((cpu+50*moment)%100) / 100
	}
	m := machine()
	var o capability.Outcome
	o.Shown.Machine, o.Shown.Pools = m, []capability.Pool{{Name: "shared", CPUs: m.Online}}
	for i := range Workloads {
		now := 0
		if i < busy {
			now = moment
		}
		name, group := fmt.Sprintf("shop/web-%d/app", i), fmt.Sprintf("kubepods.slice/kubepods-pod%08x.slice/cri-containerd-%032x.scope", i, i)
		quota := capability.Quota{Workload: name, Limit: 2, Now: 3, Credit: float64(now % 100), Capacity: 120}
		o.Rows = append(o.Rows, capability.Row{
			Workload: capability.Workload{Name: name, Group: group, State: "Active", Policy: "auto", PolicySource: "annotation"}, Section: quota,
		})
		o.Shown.Quotas = append(o.Shown.Quotas, quota)
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: name, CPUs: m.Online, Why: "it shares the pool"})
		f.Changes = append(f.Changes, view.Change{
			Object: group, Knob: "cpu.max", Original: "200000 100000", Written: plan.Value(strconv.Itoa(now)),
			Owner: "burst", Workload: name, Why: "credit",
		})
	}
	var err error
	if f.Report, err = view.Join(nil, []view.Said{{Name: "burst", Outcome: o}}); err != nil {
		t.Fatal(err)
	}
	v := view.Of(f)
	if len(v.CPUs) != 2*cores || len(v.Workloads) != Workloads {
		t.Fatalf("the view has %d CPUs and %d workloads", len(v.CPUs), len(v.Workloads))
	}
	return v
}

// machine returns a machine with one NUMA node and 32 L3 domains. All views share it as those of an agent do: Since
// compares machines only if their pointers differ.
var machine = sync.OnceValue(func() *topology.Topology {
	m := &topology.Topology{}
	for core := range cores {
		cpus := cpuset.Set{}.Add(core).Add(core + cores)
		m.Online = m.Online.Union(cpus)
		m.Cores = append(m.Cores, topology.Core{ID: topology.CoreID(core), CPUs: cpus, L3: topology.L3ID(core / 8)})
	}
	m.Nodes = []topology.Node{{CPUs: m.Online, Distances: []int{10}}}
	return m
})
