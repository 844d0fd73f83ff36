package view

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/engine/plan"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/internal/value/unit"
)

func set(tb testing.TB, list string) cpuset.Set {
	tb.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		tb.Fatal(err)
	}
	return s
}

// machine returns a machine of cores with two threads, and eight cores per L3 domain.
func machine(tb testing.TB, cpus int) *topology.Topology {
	tb.Helper()
	t := &topology.Topology{Online: set(tb, fmt.Sprintf("0-%d", cpus-1))}
	t.Nodes = []topology.Node{{CPUs: t.Online, Distances: []int{10}}}
	for first := 0; first < cpus; first += 2 {
		t.Cores = append(t.Cores, topology.Core{
			ID: topology.CoreID(first), CPUs: set(tb, fmt.Sprintf("%d-%d", first, first+1)), L3: topology.L3ID(first / 16),
		})
	}
	return t
}

// reported returns the reports of two capabilities about workloads, one of them about a and b.
func reported(tb testing.TB) Report {
	tb.Helper()
	row := func(name, state, warning string, section any) capability.Row {
		return capability.Row{Workload: capability.Workload{Name: name, State: capability.State(state), Warnings: []string{warning}}, Section: section}
	}
	first := capability.Outcome{
		Rows:     []capability.Row{row("b", "Active", "first", 1), row("a", "Off", "", nil)},
		Node:     capability.Sections{"beds": 2},
		Problems: []string{"a file is wrong"},
		Shown: capability.Shown{
			Machine: machine(tb, 6), Pools: []capability.Pool{{Name: "exclusive", CPUs: set(tb, "0-1")}, {Name: "shared", CPUs: set(tb, "1-4")}},
			Holdings: []capability.Holding{
				{Workload: "a", CPUs: set(tb, "0-3"), Borrowed: set(tb, "2-3"), Exclusive: true, Why: "it asked"},
				{Workload: "c", CPUs: set(tb, "2-4"), Refused: "no room"},
			},
		},
	}
	second := capability.Outcome{
		Rows:  []capability.Row{row("b", "Asleep", "second", 2)},
		Node:  capability.Sections{"bunks": 3},
		Shown: capability.Shown{Obstacle: "it is Sunday", Quotas: []capability.Quota{{Workload: "b", Limit: 1, Now: 2}}},
	}
	r, err := Join(nil, []Said{{"first", first}, {"second", second}})
	if err != nil {
		tb.Fatal(err)
	}
	return r
}

// TestReport checks that the capabilities' reports are joined by the names of workloads, and that the first determines
// a workload's state.
func TestReport(t *testing.T) {
	r := reported(t)
	b := r.Workloads[0]
	if b.Name != "b" || b.State != "Active" || !cmp.Equal(b.Warnings, []string{"first", "second"}) || b.Sections["first"] != 1 || b.Sections["second"] != 2 {
		t.Errorf("workload %+v", b)
	}
	if a := r.Workloads[1]; a.Name != "a" || a.State != capability.StatePinned {
		t.Errorf("workload with exclusive CPUs and no policy %+v", a)
	}
	bed := capability.Outcome{Node: capability.Sections{"beds": 4}}
	if _, err := Join(nil, []Said{{"first", bed}, {"third", bed}}); !errors.Is(err, capability.ErrTwice) {
		t.Errorf("a key twice: %v", err)
	}
}

// TestView checks that a view survives its JSON, and names the holder and class of each CPU.
func TestView(t *testing.T) {
	var log Log
	log.Add(Event{Reason: "CPUPinned", About: "a"})
	made := Of(Facts{
		Version: "1", At: time.Date(2026, 11, 23, 0, 0, 0, 0, time.UTC), Report: reported(t), Events: log.All(),
		Changes: []Change{{Object: "group", Knob: "cpu.max", Original: "1", Written: "2"}},
		Loads:   []float64{0.5, 0.25}, LoadSeconds: 1,
	})
	text, err := json.Marshal(made)
	if err != nil {
		t.Fatal(err)
	}
	var v View
	if err := json.Unmarshal(text, &v); err != nil {
		t.Fatal(err)
	}
	again, err := json.Marshal(v)
	if err != nil || string(again) != string(text) {
		t.Errorf("read and written again: %v\n%s\n%s", err, text, again)
	}
	want := []CPU{
		{0, "exclusive", "a", 0.5},
		{1, "exclusive", "a", 0.25},
		{2, "shared", "", -1},
		{3, "shared", "", -1},
		{4, "shared", "", -1},
		{5, "", "", -1},
	}
	if diff := cmp.Diff(want, v.CPUs); diff != "" {
		t.Errorf("CPUs (-want +got):\n%s", diff)
	}
	var shape []string
	for _, w := range v.Workloads {
		shape = append(shape, fmt.Sprintln(w.Name, w.Status != nil, w.CPUs != nil, w.Quota != nil))
	}
	if diff := cmp.Diff([]string{"a true true false\n", "b true false true\n", "c false true false\n"}, shape); diff != "" {
		t.Errorf("workloads (-want +got):\n%s", diff)
	}
	if v.Format != Format || v.Obstacle != "it is Sunday" || len(v.Statuses()) != 2 || len(v.Events) != 1 || len(v.Changes) != 1 || v.Machine.Online.Size() != 6 {
		t.Errorf("view %s", text)
	}
}

// TestEmptyView checks that a view of an agent without data has empty lists, and no null.
func TestEmptyView(t *testing.T) {
	text, err := json.Marshal(Of(Facts{Report: Report{Node: capability.Sections{}}}))
	if err != nil || strings.Contains(string(text), "null") {
		t.Errorf("%v %s", err, text)
	}
}

func TestLoads(t *testing.T) {
	before := []unit.CPUSpent{{Busy: 10, Idle: 10}, {Busy: 10}, {Busy: 9}, {Busy: 1, Idle: 1, Steal: 1}}
	now := []unit.CPUSpent{{Busy: 20, Idle: 40}, {Busy: 10}, {Busy: 3}, {Busy: 2, Idle: 2, Steal: 3}, {Busy: 5}}
	if diff := cmp.Diff([]float64{0.25, -1, -1, 0.25, -1}, Loads(before, now)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestLog checks that a Log has only the last events, and that a returned list does not change.
func TestLog(t *testing.T) {
	var log Log
	for i := range kept {
		log.Add(Event{Text: fmt.Sprint(i)})
	}
	before := log.All()
	log.Add(Event{Text: "last"})
	all := log.All()
	if len(all) != kept || all[0].Text != "1" || all[kept-1].Text != "last" || before[0].Text != "0" {
		t.Errorf("%d events, %v to %v; before %v", len(all), all[0], all[kept-1], before[0])
	}
}

// large returns the view at a moment of a machine of 512 CPUs with 500 containers with exclusive CPUs or quotas. Each
// CPU, quota and change differs a moment later.
func large(b *testing.B, m *topology.Topology, moment int) *View {
	b.Helper()
	const cpus, pods = 512, 500
	var f Facts
	var o capability.Outcome
	o.Shown.Machine = m
	o.Shown.Pools = []capability.Pool{{Name: "exclusive", CPUs: set(b, "0-255")}, {Name: "shared", CPUs: set(b, "256-511")}}
	f.LoadSeconds = 1
	for range cpus {
		f.Loads = append(f.Loads, float64(moment%10)/10)
	}
	credit := float64(moment)
	for i := range pods {
		name, group := fmt.Sprintf("shop/web-%d/app", i), fmt.Sprintf("kubepods.slice/kubepods-pod%08x.slice/cri-containerd-%032x.scope", i, i)
		o.Rows = append(o.Rows, capability.Row{
			Workload: capability.Workload{Name: name, Group: group, State: "Active", Policy: "auto", PolicySource: "annotation"},
			Section:  capability.Quota{Limit: 2, Now: 3, Credit: credit},
		})
		o.Shown.Quotas = append(o.Shown.Quotas, capability.Quota{Workload: name, Limit: 2, Now: 3, Credit: credit})
		h := capability.Holding{Workload: name, CPUs: set(b, "256-511"), Why: "it shares the pool"}
		if i < cpus/2 {
			h.CPUs, h.Exclusive = cpuset.Set{}.Add(i), true
		}
		o.Shown.Holdings = append(o.Shown.Holdings, h)
		for _, knob := range []string{"cpu.max", "cpuset.cpus"} {
			f.Changes = append(f.Changes, Change{Object: group, Knob: knob, Original: "200000 100000", Written: plan.Value(fmt.Sprint(moment)), Owner: "burst", Workload: name, Why: "credit"})
		}
	}
	var log Log
	for range kept {
		log.Add(Event{About: "shop/web-1", Reason: "CPUPinned", Text: "the container app has the CPUs 0-3 for itself"})
	}
	f.Events = log.All()
	var err error
	if f.Report, err = Join(nil, []Said{{"first", o}}); err != nil {
		b.Fatal(err)
	}
	return Of(f)
}

// BenchmarkView makes the view of a large machine, and encodes it.
func BenchmarkView(b *testing.B) {
	m := machine(b, 512)
	b.ReportAllocs()
	var size int
	for b.Loop() {
		text, err := json.Marshal(large(b, m, 0))
		if err != nil {
			b.Fatal(err)
		}
		size = len(text)
	}
	b.ReportMetric(float64(size), "bytes/view")
}

// BenchmarkSince makes a view of a large machine, and encodes the changes since the previous view.
func BenchmarkSince(b *testing.B) {
	m := machine(b, 512)
	b.ReportAllocs()
	before, moment, size := large(b, m, 0), 0, 0
	for b.Loop() {
		moment++
		now := large(b, m, moment)
		text, err := now.Since(before).Line()
		if err != nil {
			b.Fatal(err)
		}
		before, size = now, len(text)
	}
	b.ReportMetric(float64(size), "bytes/line")
}

// TestLogRenews checks that a repeated event appears once, with its newest text, and that other events keep their
// places.
func TestLogRenews(t *testing.T) {
	t.Parallel()
	var l Log
	l.Add(Event{About: "a", Reason: "CPUPinned"})
	for i := range 300 {
		l.Renew(Event{About: "a", Reason: "CPUBurstLimited", Text: strconv.Itoa(i)})
		l.Renew(Event{About: "b", Reason: "CPUBurstLimited", Text: strconv.Itoa(i)})
	}
	want := []Event{{About: "a", Reason: "CPUPinned"}, {About: "a", Reason: "CPUBurstLimited", Text: "299"}, {About: "b", Reason: "CPUBurstLimited", Text: "299"}}
	if got := l.All(); !slices.Equal(got, want) {
		t.Errorf("%+v", got)
	}
}
