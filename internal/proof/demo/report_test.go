package demo

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/internal/linux/cgroup"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/proof/bench"
	"github.com/berth-project/berth/internal/value/cpuset"
	"github.com/berth-project/berth/test/plain"
)

var update = flag.Bool("update", false, "rewrite the golden files")

func TestTable(t *testing.T) {
	ms := func(v float64) *float64 { return &v }
	r := &Report{
		Machine:  bench.Machine{Kernel: "6.12.0", CPUs: 2, Cgroups: "v2", Berth: "dev", Arch: "amd64"},
		Topology: "topology: 1 socket\n└─ node 0\n",
		Setup:    bench.Setup{LimitCPUs: 0.5, BatchesPerSec: 10, Batch: 17, WorkMicros: 1200, ArmSeconds: 30, Seed: 1},
		Arms: []bench.ArmSummary{
			{Name: unlimited, Served: bench.Served{Requests: 5000, P50: ms(11.7), P99: ms(28.8)}, MeanCPUs: 0.21},
			{Name: limited, Served: bench.Served{Requests: 5000, P50: ms(12.2), P99: ms(168.4)}, Throttled: 40, Above: 1, Periods: 290, MeanCPUs: 0.21},
			{Name: managed, Served: bench.Served{Requests: 5000, P50: ms(11.9), P99: ms(29.1)}, Periods: 288, MeanCPUs: 0.21, Writes: 2},
		},
		Parts: []Part{
			{Capability: "place", Title: "a server", Header: []string{"ARM", "CPUS"}, Rows: [][]string{{"limited", "0-1"}, {placed, "0"}}},
			{Capability: "localize", Why: "one NUMA node"},
		},
		Files: []FileProof{
			{File: "/sys/fs/cgroup/x/cpu.max", Before: "50000 100000", During: "150000 100000", After: "50000 100000", Restored: true},
			{File: "/sys/fs/cgroup/x/cpu.max.burst", Before: "0", During: "50000", After: "50000"},
			{File: "/sys/fs/cgroup/x/cpuset.cpus", During: "1", After: "0-1", Restored: true},
		},
		Notes: []string{"a note"},
	}
	var out bytes.Buffer
	if err := WriteTable(&out, r); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join("testdata", "table.txt")
	if *update {
		if err := os.WriteFile(file, out.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), out.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

// TestRestored checks which contents count as restored, in a group beside a partition and in a group beside none.
func TestRestored(t *testing.T) {
	h := plain.WithGroups(t, "cpuset cpu")
	h.Write("sys/devices/system/cpu/possible", "0-7\n")
	h.Write("sys/devices/system/node/possible", "0-1\n")
	for _, group := range []string{"job", "rt", "deep", "deep/job"} {
		h.Write("sys/fs/cgroup/"+group+"/cgroup.controllers", "cpuset cpu\n")
		h.Write("sys/fs/cgroup/"+group+"/cpuset.cpus", "\n")
		h.Write("sys/fs/cgroup/"+group+"/cpuset.cpus.partition", "member\n")
	}
	h.Write("sys/fs/cgroup/rt/cpuset.cpus", "6-7\n")
	h.Write("sys/fs/cgroup/rt/cpuset.cpus.partition", "root\n")
	p := proof{host: h.Cgroups()}
	for _, f := range []struct {
		group         string
		list          cgroup.Knob
		before, after string
		want          bool
	}{
		{"", "", "50000 100000", "50000 100000", true},
		{"", "", "50000 100000", "60000 100000", false},
		{"", "", "", "0-7", false},
		{"job", cgroup.KnobCPUs, "0-3", "0-3", true},
		{"job", cgroup.KnobCPUs, "0-3", "0-7", false},
		{"job", cgroup.KnobCPUs, "0-3", "", false},
		{"job", cgroup.KnobCPUs, "", "", true},
		{"job", cgroup.KnobCPUs, "", "0-7", true},
		{"job", cgroup.KnobCPUs, "", "0-5", true}, // without the CPUs of the partition
		{"job", cgroup.KnobCPUs, "", "0-4", false},
		{"job", cgroup.KnobCPUs, "", "1", false},
		{"job", cgroup.KnobMems, "", "0-1", true},
		{"job", cgroup.KnobMems, "", "0", false},
		{"deep/job", cgroup.KnobCPUs, "", "0-7", true},
		{"deep/job", cgroup.KnobCPUs, "", "0-5", false},
	} {
		file := FileProof{Before: f.before, During: "1", After: f.after, group: f.group, list: f.list}
		if got, err := p.restored(&file); got != f.want || err != nil {
			t.Errorf("%+v: %v, %v", f, got, err)
		}
	}
	// A partition has all CPUs, so that no list can have the effect of an empty list: the present list is no answer.
	h.Write("sys/fs/cgroup/rt/cpuset.cpus", "0-7\n")
	h.Write("sys/fs/cgroup/job/cpuset.cpus", "1\n")
	file := FileProof{During: "1", After: "1", group: "job", list: cgroup.KnobCPUs}
	if got, err := p.restored(&file); got || err != nil {
		t.Errorf("beside a partition with all CPUs: %v, %v", got, err)
	}
}

func TestOutline(t *testing.T) {
	set := func(list string) cpuset.Set {
		s, err := cpuset.Parse(list)
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	machine := &topology.Topology{
		Online:  set("0-3"),
		Sockets: []topology.Socket{{ID: 0, CPUs: set("0-3")}},
		Nodes:   []topology.Node{{ID: 0, CPUs: set("0-1"), MemoryBytes: 2 << 30}, {ID: 1, CPUs: set("2-3"), MemoryBytes: 3 << 29}},
		Cores:   []topology.Core{{ID: 0, CPUs: set("0-1")}, {ID: 1, CPUs: set("2-3")}},
		L3:      []topology.L3{{ID: 0, CPUs: set("0-1")}, {ID: 1, CPUs: set("2-3")}},
	}
	want := "topology: 1 socket, 2 NUMA nodes, 2 cores, 4 CPUs\n" +
		"├─ node 0: CPUs 0-1, 2.0 GiB, L3 0-1\n" +
		"└─ node 1: CPUs 2-3, 1.5 GiB, L3 2-3\n"
	if diff := cmp.Diff(want, Outline(machine)); diff != "" {
		t.Errorf("outline (-want +got):\n%s", diff)
	}
}
