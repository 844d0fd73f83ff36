package web

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/history"
	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// recorded returns a machine of testdata.
func recorded(t testing.TB, name string) *topology.Topology {
	t.Helper()
	text, err := os.ReadFile("../../testdata/machines/" + name + ".golden.json")
	if err != nil {
		t.Fatal(err)
	}
	m, err := topology.Decode(text)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// large returns a machine with 512 CPUs in 2 sockets, 8 NUMA nodes and 32 L3 domains.
func large() *topology.Topology {
	t := &topology.Topology{}
	for core := range 256 {
		cpus := cpuset.Set{}.Add(core).Add(core + 256)
		node, socket := core/32, core/128
		for len(t.Nodes) <= node {
			t.Nodes = append(t.Nodes, topology.Node{ID: topology.NodeID(node), MemoryBytes: 96 << 30})
		}
		for len(t.Sockets) <= socket {
			t.Sockets = append(t.Sockets, topology.Socket{ID: topology.SocketID(socket)})
		}
		t.Online, t.Nodes[node].CPUs = t.Online.Union(cpus), t.Nodes[node].CPUs.Union(cpus)
		t.Cores = append(t.Cores, topology.Core{
			ID: topology.CoreID(core), CPUs: cpus, Socket: topology.SocketID(socket), Node: topology.NodeID(node), L3: topology.L3ID(core / 8),
		})
	}
	return t
}

// node is a node of a cluster at a given second: counters increase, and loads change.
type node struct {
	machine *topology.Topology
	// pinned are workloads with exclusive cores, throttled are workloads with quotas.
	pinned, throttled []string
	second            int
	// before is the number of seconds that the agent recorded before the first view.
	before int
	// services are the services that their quotas throttle on a node without workloads, nil on a node that has some.
	services []string
	// reports are the reports of further capabilities.
	reports []view.Said
	// next is called before each view; nil for nothing.
	next func()
}

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// view returns the view of the node.
func (n *node) view(t testing.TB) *view.View {
	t.Helper()
	f := view.Facts{Version: "v1.2.0", At: start.Add(time.Duration(n.second) * time.Second), LoadSeconds: 1}
	var o capability.Outcome
	held := n.hold(&o, &f)
	shared := n.machine.Online.Difference(held).Difference(set(t, "0"))
	o.Shown.Machine = n.machine
	o.Shown.Pools = []capability.Pool{{Name: "exclusive", CPUs: held}, {Name: "reserved", CPUs: set(t, "0")}, {Name: "shared", CPUs: shared}}
	f.Throttling = map[string]*view.Throttling{}
	slowed := n.services
	if slowed == nil {
		const late = "shop/late-0/app"
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: late, CPUs: shared, Refused: "1 node had fewer than 6 free cores"})
		slowed = []string{late}
	}
	for _, name := range slowed {
		f.Throttling[name] = &view.Throttling{Limit: 0.5, Used: 0.2, Seconds: 10, Periods: 80, Throttled: 32, BurstHelps: true}
	}
	for i, name := range n.throttled {
		n.limit(&o, &f, i, name)
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: name, CPUs: shared, Why: "it shares the pool"})
	}
	for cpu := range n.machine.Online.All() {
		for len(f.Loads) <= cpu {
			f.Loads = append(f.Loads, -1)
		}
		f.Loads[cpu] = float64((cpu*37+n.second*11)%100) / 100
	}
	var err error
	if f.Report, err = view.Join([]string{"workloads/cache.yaml: field cpus: value 200: allowed: at most the node's 32"}, append([]view.Said{{Name: "place", Outcome: o}}, n.reports...)); err != nil {
		t.Fatal(err)
	}
	f.Events = append(f.Events, view.Event{At: f.At, Reason: "HostDrift", Text: "vm.swappiness is 60, and the profile says 10", Warning: true})
	return view.Of(f)
}

// hold gives each pinned workload two exclusive cores.
func (n *node) hold(o *capability.Outcome, f *view.Facts) (held cpuset.Set) {
	for i, name := range n.pinned {
		var cpus cpuset.Set
		for c := range 2 {
			cpus = cpus.Union(n.machine.Cores[(1+2*i+c)%len(n.machine.Cores)].CPUs)
		}
		held = held.Union(cpus)
		why := fmt.Sprintf("it asked for %d exclusive CPUs; these are whole cores of one L3 domain", cpus.Size())
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: name, CPUs: cpus, Exclusive: true, Why: why})
		f.Changes = append(f.Changes, view.Change{
			Object: fmt.Sprintf("kubepods.slice/kubepods-pod%04x.slice", i), Knob: "cpuset.cpus", Original: "0-31", Written: "1-2,17-18",
			Owner: "place", Workload: name, Why: "it has exclusive CPUs", Since: start.Add(-time.Hour), Writes: 1,
		})
		f.Events = append(f.Events, view.Event{At: start.Add(time.Duration(i) * time.Second), About: name, Reason: "CPUPinned", Text: "it has the CPUs " + cpus.String() + " for itself"})
	}
	return held
}

// past returns the agent's history: each workload was throttled in half of its periods and had the quota 7, which is
// above the quotas of the views.
func (n *node) past() *history.History {
	all := history.New(history.Options{})
	for second := range n.before {
		var moments []capability.Moment
		for _, name := range n.throttled {
			s := uint64(second) //nolint:gosec // it is small
			q := capability.Quota{Workload: name, Limit: 2, Now: 7, Credit: 60, Capacity: 120, Periods: 10 * s, Throttled: 5 * s}
			moments = append(moments, capability.Moment{Quota: q, At: time.Duration(1+second) * time.Second})
		}
		all.Add(start.Add(time.Duration(second-n.before)*time.Second), moments)
	}
	return all
}

// limit gives a workload a quota that throttles it now and then.
func (n *node) limit(o *capability.Outcome, f *view.Facts, i int, name string) {
	s := uint64(n.second) //nolint:gosec // it is small
	share := uint64((i*7 + n.second/5) % 10)
	q := capability.Quota{
		Workload: name, Limit: 2, Now: 2 + float64((i+n.second/4)%4)/2, Credit: float64((i*31 + n.second*3) % 120), Capacity: 120,
		Periods: 100 + 10*s, Throttled: 10 + s*share, Above: s,
	}
	o.Shown.Quotas = append(o.Shown.Quotas, q)
	o.Rows = append(o.Rows, capability.Row{Workload: capability.Workload{
		Name: name, State: "Bursting", Policy: "auto", PolicySource: "annotation", Group: fmt.Sprintf("kubepods.slice/burst-%d", i), Since: start,
	}})
	f.Changes = append(f.Changes, view.Change{
		Object: fmt.Sprintf("kubepods.slice/burst-%d", i), Knob: "cpu.max", Original: "200000 100000", Written: "300000 100000",
		Owner: "burst", Workload: name, Why: "it has credit and the node has room", Since: start, Writes: 12,
	})
}

// names returns count names of containers.
func names(prefix string, count int) []string {
	var all []string
	for i := range count {
		all = append(all, fmt.Sprintf("%s-%d/app", prefix, i))
	}
	return all
}
