package simulate

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

const farMachine = `
apiVersion: berth.dev/v1alpha1
kind: NodeTopology
metadata: {name: far}
spec:
  online: 0-11
  numaNodes:
  - {id: 0, cpus: 0-3, memoryBytes: 10737418240, distances: [10, 21, 21]}
  - {id: 1, cpus: 4-7, memoryBytes: 10737418240, distances: [21, 10, 21]}
  - {id: 2, cpus: 8-11, distances: [21, 21, 10]}
  cores: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11"]
`

// hugeMachine has two NUMA nodes with 64 huge pages of 1 GiB each.
const hugeMachine = `
apiVersion: berth.dev/v1alpha1
kind: NodeTopology
metadata: {name: huge}
spec:
  online: 0-15
  numaNodes:
  - {id: 0, cpus: 0-7, memoryBytes: 85899345920, hugePageBytes: 68719476736, hugePages: [{pageKiB: 1048576, pages: 64}], distances: [10, 21]}
  - {id: 1, cpus: 8-15, memoryBytes: 85899345920, hugePageBytes: 68719476736, hugePages: [{pageKiB: 1048576, pages: 64}], distances: [21, 10]}
  cores: ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15"]
`

// TestHugePagesOnPaper binds two pods of 50 and 40 GiB of huge pages to one NUMA node each. A third pod that fits on no
// node must get that reason, and a fourth that the machine has no room for must wait.
func TestHugePagesOnPaper(t *testing.T) {
	pods := ""
	for _, pod := range []struct{ name, huge string }{{"a", "50Gi"}, {"b", "40Gi"}, {"c", "30Gi"}, {"d", "10Gi"}} {
		pods += podText(pod.name, "{cpu: 2, memory: 1Gi, hugepages-1Gi: "+pod.huge+"}")
	}
	o, err := Read([]string{"-"}, strings.NewReader(hugeMachine+pods))
	if err != nil {
		t.Fatal(err)
	}
	report, mems, why := run(t, New(o)), []string{}, ""
	for _, p := range report.Placements {
		mems = append(mems, p.Pod+" "+p.Containers[0].Mems)
		for _, reason := range p.Why {
			if reason.Term == "mems" {
				why += p.Pod + ": " + reason.Text
			}
		}
	}
	if diff := cmp.Diff([]string{"a 0", "b 1", "c 0-1"}, mems); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if want := "c: memory of all NUMA nodes: with its huge pages not known to fit NUMA node 0 beside what else is requested"; why != want {
		t.Errorf("why %q, want %q", why, want)
	}
	want := "0/1 nodes are available: 1 Insufficient hugepages-1Gi."
	if len(report.Pending) != 1 || report.Pending[0].Reason != want || report.Pending[0].Nodes[0].Detail != "hugepages-1Gi: 10 GiB requested, 8 GiB of 128 GiB left" {
		t.Errorf("pending %+v, want %q", report.Pending, want)
	}
}

// TestKubeletMemoryOnPaper checks that memory which the kubelet's memory manager assigned counts in its NUMA node, as
// the agent published it.
func TestKubeletMemoryOnPaper(t *testing.T) {
	const given = "status: {kubeletMemory: [{numaNodes: '0', pageKiB: 1048576, bytes: 42949672960}]}\n"
	for text, want := range map[string]string{hugeMachine: "0", hugeMachine + given: "1"} {
		o, err := Read([]string{"-"}, strings.NewReader(text+podText("a", "{cpu: 2, memory: 1Gi, hugepages-1Gi: 30Gi}")))
		if err != nil {
			t.Fatal(err)
		}
		if placed := run(t, New(o)).Placements; len(placed) != 1 || placed[0].Containers[0].Mems != want {
			t.Errorf("placements %+v, want NUMA node %s", placed, want)
		}
	}
}

// TestDevicesOnPaper checks that a pod with devices in both NUMA nodes gets CPUs in both, and that a pod without nearby
// devices gets a reason.
func TestDevicesOnPaper(t *testing.T) {
	text := hugeMachine + "  devices: [{resource: example.com/gpu, perNUMANode: [4, 4]}]\n"
	o, err := Read([]string{"-"}, strings.NewReader(text+podText("eight", "{cpu: 8, example.com/gpu: 8}")+podText("late", "{cpu: 2, example.com/gpu: 1}")))
	if err != nil {
		t.Fatal(err)
	}
	all := run(t, New(o)).Placements
	if len(all) != 2 || all[0].Containers[0].CPUs != "0-3,8-11" {
		t.Fatalf("%+v", all)
	}
	for i, want := range []string{"", "1 kind of devices that its NUMA nodes do not have in full"} {
		got := ""
		for _, reason := range all[i].Why {
			if reason.Term == "farDevices" {
				got = reason.Text
			}
		}
		if got != want {
			t.Errorf("%s: %q, want %q", all[i].Pod, got, want)
		}
	}
}

// TestMemoryReasons checks that a container with memory of other nodes than its own gets the reason.
func TestMemoryReasons(t *testing.T) {
	const all = "memory of all NUMA nodes"
	for _, test := range []struct {
		name, resources string
		before          string // an earlier pod, which gets its part first
		want            []string
	}{
		{"bound", "{cpu: 2, memory: 1Gi}", "", nil},
		{"unbounded", "{cpu: 2}", "", []string{"no memory limit or request: " + all}},
		{"too much", "{cpu: 2, memory: 9800Mi}", "", []string{all + ": not known to fit NUMA node 0 beside what else is requested"}},
		{"remote", "{cpu: 4, memory: 1Gi}", "{cpu: 8, memory: 1Gi}", []string{"NUMA node 2 has no memory: every access from CPUs there is remote"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			text := farMachine
			// The shared pool keeps a core. A core in no node leaves the far node complete.
			if test.before != "" {
				text = strings.Replace(text, "0-11\n", "0-12\n", 1)
				text = strings.Replace(text, `"11"]`, `"11", "12"]`, 1)
				text += podText("first", test.before)
			}
			o, err := Read([]string{"-"}, strings.NewReader(text+podText("asks", test.resources)))
			if err != nil {
				t.Fatal(err)
			}
			report := run(t, New(o))
			if len(report.Pending) > 0 {
				t.Fatalf("%+v", report.Pending)
			}
			var got []string
			for _, reason := range report.Placements[len(report.Placements)-1].Why {
				if reason.Term == "mems" || reason.Term == "remote" {
					got = append(got, reason.Text)
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func podText(name, limits string) string {
	return "---\n{apiVersion: v1, kind: Pod, metadata: {name: " + name + ", annotations: {cpuset-scheduler: 'true'}}, " +
		"spec: {containers: [{name: main, resources: {limits: " + limits + "}}]}}\n"
}

// TestSharedPoolDetail checks that the reason for the last core of the shared pool says how many CPUs fit.
func TestSharedPoolDetail(t *testing.T) {
	o, err := Read([]string{"-"}, strings.NewReader(farMachine+podText("all", "{cpu: 12}")))
	if err != nil {
		t.Fatal(err)
	}
	want := "no whole core left for the shared pool: 12 CPUs wanted, at most 11 can be had (whatever runs there)"
	if got := run(t, New(o)).Pending[0].Nodes[0].Detail; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestRunEnds(t *testing.T) {
	ctx, stop := context.WithCancel(t.Context())
	stop()
	o := readFiles(t, "testdata/nodes.yaml", "testdata/seeds")
	if _, err := New(o).Run(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

// TestAgentsSilent checks an expired Lease, a missing Lease and a Lease from a clock that is ahead.
func TestAgentsSilent(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	a := Agents{At: now, Renewed: map[string]time.Time{
		"old": now.Add(-181 * time.Second), "fresh": now.Add(-180 * time.Second), "ahead": now.Add(time.Hour),
	}}
	for node, silent := range map[string]bool{"old": true, "fresh": false, "ahead": false, "none": true} {
		if got := a.silent(node); (got != "") != silent {
			t.Errorf("%s: %q", node, got)
		}
	}
	if unknown := (Agents{At: now, Unknown: "forbidden"}); unknown.silent("none") != "" || (&Agents{}).silent("none") != "" {
		t.Error("silent although the memory is not known")
	}
}
