package agent

import (
	"fmt"
	"log/slog"
	"net/http/httptest"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/internal/agent/view"
	"github.com/berth-project/berth/internal/agent/web"
	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// BenchmarkWatched measures the CPU time and the resident memory of a process without viewers, with one, and with 100.
// The viewers follow the stream from a process of their own. Each second the process makes the view of an agent with
// 500 pods. In its place the viewers get a view of 512 CPUs and 500 workloads that has changed completely: the files of
// the agent are plain, so that its own view changes little. The agent's loop does not run, so the arm without viewers
// is the process alone. The difference from that arm is the cost of the viewers. -benchtime sets the seconds of an arm,
// such as 60x.
func BenchmarkWatched(b *testing.B) {
	n := newNodeOf(b, 500, 50)
	n.begins(b, costs{})
	v, moments, second := &viewer{agent: n.controls}, [2]*view.View{momentOf(b, 0), momentOf(b, 1)}, 0
	server := httptest.NewServer(web.NewNode(func() (*view.View, error) {
		if _, err := v.look(); err != nil {
			return nil, err
		}
		second++
		return moments[second%len(moments)], nil
	}, slog.New(slog.DiscardHandler)).Handler())
	defer server.Close()
	for _, number := range []int{0, 1, viewers} {
		b.Run(fmt.Sprintf("viewers=%d", number), func(b *testing.B) {
			if number > 0 {
				defer follow(b, server.URL, number)()
			}
			var most float64
			began, before := time.Now(), cpuTime(b)
			for b.Loop() {
				time.Sleep(time.Second)
				most = max(most, resident(b))
			}
			b.ReportMetric(100*(cpuTime(b)-before).Seconds()/time.Since(began).Seconds(), "%cpu")
			b.ReportMetric(most, "MiB")
		})
	}
	if err := n.controls.stop(); err != nil {
		b.Error(err)
	}
	n.closeJournal()
}

// resident returns the resident memory of this process in MiB.
func resident(b *testing.B) float64 {
	b.Helper()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		b.Fatal(err)
	}
	fields := strings.Fields(string(text))
	if len(fields) < 2 {
		b.Fatalf("/proc/self/statm is %q", text)
	}
	pages, err := strconv.Atoi(fields[1])
	if err != nil {
		b.Fatal(err)
	}
	return float64(pages*os.Getpagesize()) / (1 << 20)
}

// momentOf returns the view at a moment of a machine with 512 CPUs and 500 workloads. The load of each CPU, and the
// quota and a change of each workload differ a moment later.
func momentOf(b *testing.B, moment int) *view.View {
	b.Helper()
	const cores, pods = 256, 500
	machine := &topology.Topology{}
	f := view.Facts{At: time.Unix(int64(moment), 0), LoadSeconds: 1, Loads: make([]float64, 2*cores)}
	for core := range cores {
		cpus := cpuset.Set{}.Add(core).Add(core + cores)
		machine.Online = machine.Online.Union(cpus)
		machine.Cores = append(machine.Cores, topology.Core{ID: topology.CoreID(core), CPUs: cpus, L3: topology.L3ID(core / 8)})
	}
	machine.Nodes = []topology.Node{{CPUs: machine.Online, Distances: []int{10}}}
	for cpu := range f.Loads {
		f.Loads[cpu] = float64((cpu+50*moment)%100) / 100
	}
	var o capability.Outcome
	o.Shown.Machine, o.Shown.Pools = machine, []capability.Pool{{Name: "shared", CPUs: machine.Online}}
	for i := range pods {
		name, group := fmt.Sprintf("shop/web-%d/app", i), fmt.Sprintf("kubepods.slice/kubepods-pod%08x.slice/cri-containerd-%032x.scope", i, i)
		quota := capability.Quota{Workload: name, Limit: 2, Now: 3, Credit: float64(moment), Capacity: 120}
		o.Rows = append(o.Rows, capability.Row{
			Workload: capability.Workload{Name: name, Group: group, State: "Active", Policy: "auto", PolicySource: "annotation"}, Section: quota,
		})
		o.Shown.Quotas = append(o.Shown.Quotas, quota)
		o.Shown.Holdings = append(o.Shown.Holdings, capability.Holding{Workload: name, CPUs: machine.Online, Why: "it shares the pool"})
		f.Changes = append(f.Changes, view.Change{
			Object: group, Knob: "cpu.max", Original: "200000 100000", Written: plan.Value(strconv.Itoa(moment)), Owner: "burst", Workload: name, Why: "credit",
		})
	}
	var err error
	if f.Report, err = view.Join(nil, []view.Said{{Name: "burst", Outcome: o}}); err != nil {
		b.Fatal(err)
	}
	v := view.Of(f)
	if len(v.CPUs) != 2*cores || len(v.Workloads) != pods {
		b.Fatalf("the view has %d CPUs and %d workloads", len(v.CPUs), len(v.Workloads))
	}
	return v
}
