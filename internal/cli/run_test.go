package cli

import (
	"errors"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

func list(t *testing.T, text string) cpuset.Set {
	t.Helper()
	set, err := cpuset.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func recordedMachine(t *testing.T, name string) *topology.Topology {
	t.Helper()
	text, err := os.ReadFile("../../testdata/machines/" + name + ".txtar")
	if err != nil {
		t.Fatal(err)
	}
	machine, err := readTopology(text)
	if err != nil {
		t.Fatal(err)
	}
	return machine
}

// TestRunChooses uses two sockets with two threads per core. Node 0 has CPUs 0-7,16-23.
func TestRunChooses(t *testing.T) {
	machine := recordedMachine(t, "vm-2s2n-smt")
	near := machine.CPUsOf(list(t, "1"))
	far := machine.Online.Difference(near)
	if near.IsEmpty() || far.IsEmpty() {
		t.Fatalf("CPUs of node 1 %s, others %s", near, far)
	}
	first, _ := near.Min()
	core := machine.Cores[0].CPUs
	tests := []struct {
		name   string
		around surroundings
		n      int
		mems   string
		in     cpuset.Set // contains the answer
		shares bool
		fails  bool
	}{
		{name: "anywhere", n: 2, in: machine.Online},
		{name: "beside the memory", n: 2, mems: "1", in: near},
		{name: "all of a node", n: near.Size(), mems: "1", in: near},
		{name: "more than the node", n: near.Size() + 1, mems: "1", fails: true},
		{name: "in the group", around: surroundings{group: near}, n: 2, in: near},
		{name: "in what it was started with", around: surroundings{inherited: near}, n: 2, in: near},
		{name: "more than it was started with", around: surroundings{inherited: near}, n: near.Size() + 1, fails: true},
		{name: "not what a workload has", around: surroundings{held: []holding{{"db", far}}}, n: 2, in: near},
		{name: "only what no workload has", around: surroundings{held: []holding{{"db", machine.Online}}}, n: 1, fails: true},
		{name: "not what is reserved", around: surroundings{reserved: far}, n: 2, in: near},
		{name: "not where others keep to", around: surroundings{confined: near.Remove(first)}, n: 1, in: far.Add(first)},
		{name: "where others keep to for want of others", around: surroundings{confined: near}, n: 2, mems: "1", in: near, shares: true},
		{name: "a whole core", around: surroundings{confined: core}, n: core.Size(), in: machine.Online.Difference(core)},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			if test.around.group.IsEmpty() {
				test.around.group = machine.Online
			}
			if test.around.inherited.IsEmpty() {
				test.around.inherited = machine.Online
			}
			cpus, shares, err := test.around.choose(test.n, list(t, test.mems), machine)
			if test.fails {
				if err == nil || exitCode(err) != exitFailed {
					t.Errorf("CPUs %s, %v", cpus, err)
				}
				return
			}
			if err != nil || cpus.Size() != test.n || !cpus.IsSubsetOf(test.in) || shares != test.shares {
				t.Errorf("CPUs %s, shares %v, %v; want %d of %s", cpus, shares, err, test.n, test.in)
			}
		})
	}
}

// Isolated CPUs are chosen only by their numbers.
func TestRunLeavesIsolatedCPUs(t *testing.T) {
	machine := *recordedMachine(t, "vm-2s2n-smt")
	first, _ := machine.Online.Min()
	machine.Isolated = machine.Online.Remove(first)
	around := surroundings{group: machine.Online, inherited: machine.Online}
	if cpus, _, err := around.choose(1, cpuset.Set{}, &machine); err != nil || cpus != machine.Online.Difference(machine.Isolated) {
		t.Errorf("CPUs %s, %v", cpus, err)
	}
	if _, _, err := around.choose(2, cpuset.Set{}, &machine); err == nil {
		t.Error("chose isolated CPUs")
	}
	if err := around.allow(machine.Isolated); err != nil {
		t.Error(err)
	}
}

// Named CPUs must be in the group and must not belong to a workload.
func TestRunAllows(t *testing.T) {
	around := surroundings{group: list(t, "0-5"), held: []holding{{"db", list(t, "4-5")}}}
	for cpus, code := range map[string]int{"0-3": exitDone, "3-4": exitDiffers, "0,6": exitUsage} {
		if err := around.allow(list(t, cpus)); exitCode(err) != code {
			t.Errorf("CPUs %s: %v", cpus, err)
		}
	}
	if err := around.allow(list(t, "4")); !errors.Is(err, ErrHeld) {
		t.Error(err)
	}
}

// Only the applied lists of pinned workloads are exclusive, except the list of the command's own group.
func TestRunHoldings(t *testing.T) {
	rows := []applied{
		{Workload: "db", Owner: "place", Knob: string(cgroup.KnobCPUs), State: "applied", Current: "4-5"},
		{Workload: "own", Owner: "place", Knob: string(cgroup.KnobCPUs), State: "applied", Current: "0-3"},
		{Workload: "pool", Owner: "pool", Knob: string(cgroup.KnobCPUs), State: "applied", Current: "6-7"},
		{Workload: "gone", Owner: "place", Knob: string(cgroup.KnobCPUs), State: "gone"},
		{Workload: "mems", Owner: "place", Knob: string(cgroup.KnobMems), State: "applied", Current: "0"},
	}
	var names []string
	for _, h := range holdings(rows, list(t, "0-3")) {
		names = append(names, h.workload+" "+h.cpus.String())
	}
	if diff := cmp.Diff([]string{"db 4-5"}, names); diff != "" {
		t.Error(diff)
	}
}

// TestRunReadsTheMachine: CPUs that the machine does not have are a usage error.
func TestRunReadsTheMachine(t *testing.T) {
	machine := recordedMachine(t, "memory-only-node")
	if _, n, err := readCPUs("1", machine); n != 1 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if cpus, n, err := readCPUs("1-1", machine); n != 0 || cpus != list(t, "1") || err != nil {
		t.Errorf("%s, %d, %v", cpus, n, err)
	}
	for _, bad := range []string{"", "0", "99999999999999999999", "1025", "0-1023", "-1", "a"} {
		if cpus, n, err := readCPUs(bad, machine); exitCode(err) != exitUsage {
			t.Errorf("--cpus %q: %s, %d, %v", bad, cpus, n, err)
		}
	}
	bare := *machine
	bare.Nodes = append([]topology.Node{{ID: 77, CPUs: machine.Online}}, machine.Nodes...)
	if _, err := readMems("77", &bare); exitCode(err) != exitUsage {
		t.Errorf("memory of a node without memory: %v", err)
	}
}
