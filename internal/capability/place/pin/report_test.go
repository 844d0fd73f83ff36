package pin

import (
	"slices"
	"testing"

	"github.com/berth-project/berth/internal/capability"
	"github.com/berth-project/berth/internal/node/cluster"
)

// Where the machine cannot be read, nothing is pinned, and the metric gives a reason.
func TestPinnableWithoutTopology(t *testing.T) {
	s := newNode(t, map[string]string{})
	shown := map[string]float64{}
	s.Measure(func(m capability.Sample) {
		if m.Metric == "node_pinnable" {
			shown[m.Labels[0]] = m.Value
		}
	})
	if s.opts.Hardware.Machine.Topology != nil || len(shown) != 1 {
		t.Fatalf("topology %v, shown %v", s.opts.Hardware.Machine.Topology, shown)
	}
	for reason, value := range shown {
		if reason == "" || value != 0 {
			t.Errorf("%g because of %q", value, reason)
		}
	}
}

// unwritten is a cluster that writes no annotation.
type unwritten struct{}

func (unwritten) Annotate(cluster.Object, string, *string) {}

// TestUnrequestedOnlyInACluster checks that a host without Kubernetes does not have CPUs beyond requests: no program
// adds requests up there, and all exclusive CPUs would count.
func TestUnrequestedOnlyInACluster(t *testing.T) {
	s := newNode(t, twoNodes("0-1"))
	reads(s)
	measured := func() map[string]bool {
		all := map[string]bool{}
		s.Measure(func(m capability.Sample) { all[m.Metric] = true })
		return all
	}
	const metric = "node_held_unrequested_cpus"
	if all := measured(); all[metric] || !all["node_exclusive_cpus"] {
		t.Errorf("without Kubernetes: %v", all)
	}
	s.Join(unwritten{})
	if all := measured(); !all[metric] {
		t.Errorf("in a cluster: %v", all)
	}
}

// The reader finds the CPUs of a workload, of a container and of a whole pod, and nothing for other names. It also
// lists the CPUs where offline work has cores of its own.
func TestReader(t *testing.T) {
	r := capability.Reported{Alive: true, Node: capability.Sections{keyCPUs: &CPUs{
		Offline: "2-3", Shared: "4-7", Memory: "doubtful",
		Containers: []ContainerCPUs{
			{Pod: "default/web", Container: "app", CPUs: "4-7", Why: "shared"},
			{Pod: "default/web", Container: "side", Refused: "no room", Why: "refused"},
			{Pod: "batch", CPUs: "2-3", Why: "offline"},
		},
	}}}
	for name, want := range map[string]int{"default/web": 2, "default/web/app": 1, "default/web/side": 1, "batch": 1, "default/web/other": 0, "web": 0, "default/we": 0} {
		r.Workload.Name = name
		if view, err := (placeReader{}).Workload(r); err != nil || len(view.Lines) != want {
			t.Errorf("%s: %q, %v; want %d lines", name, view.Lines, err, want)
		}
	}
	if view, err := (placeReader{}).Node(r); err != nil || len(view.Table) != 4 || view.Lines[0] != "memory: doubtful" {
		t.Errorf("table %q, lines %q, %v", view.Table, view.Lines, err)
	} else if head, last := view.Table[0], view.Table[3]; head[0] != "POD" || head[1] != "CONTAINER" || last[0] != "batch" || last[1] != "-" {
		t.Errorf("table %q", view.Table)
	}
	r.Node = capability.Sections{keyCPUs: &CPUs{Exclusive: "2-3", Containers: []ContainerCPUs{{Pod: "batch", CPUs: "2-3", Pinned: true, Why: "own"}}}}
	view, err := (placeReader{}).Node(r)
	want := [][]string{{"WORKLOAD", "CPUS", "MEMS", "PINNED", "WHY"}, {"batch", "2-3", "as before", "yes", "own"}}
	if !slices.EqualFunc(view.Table, want, slices.Equal) || err != nil {
		t.Errorf("without Kubernetes: table %q, %v", view.Table, err)
	}
}
