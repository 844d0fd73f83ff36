package placement_test

import (
	"fmt"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/internal/alloc"
	"github.com/berth-project/berth/internal/placement"
	"github.com/berth-project/berth/internal/topology"
	"github.com/berth-project/berth/internal/workload"
)

// hugeTree is a host of two NUMA nodes with four CPUs and 10 GiB each, of which node 0
// has 5 GiB in huge pages of two sizes.
func hugeTree() fstest.MapFS {
	const cpus, nodes = "sys/devices/system/cpu/", "sys/devices/system/node/"
	tree := fstest.MapFS{cpus + "online": {Data: []byte("0-7\n")}, nodes + "online": {Data: []byte("0-1\n")}}
	for cpu := range 8 {
		at := fmt.Sprintf("%scpu%d/topology/", cpus, cpu)
		tree[at+"thread_siblings_list"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", cpu)}
		tree[at+"physical_package_id"] = &fstest.MapFile{Data: []byte("0\n")}
	}
	for node := range 2 {
		at := fmt.Sprintf("%snode%d/", nodes, node)
		tree[at+"cpulist"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d-%d\n", 4*node, 4*node+3)}
		tree[at+"meminfo"] = &fstest.MapFile{Data: fmt.Appendf(nil, "Node %d MemTotal: %d kB\n", node, 10<<20)}
		tree[at+"distance"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d %d\n", 10+10*node, 20-10*node)}
		tree[at+"hugepages/hugepages-2048kB/nr_hugepages"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", 512*(1-node))}
		tree[at+"hugepages/hugepages-1048576kB/nr_hugepages"] = &fstest.MapFile{Data: fmt.Appendf(nil, "%d\n", 4*(1-node))}
	}
	return tree
}

// Huge pages are set aside: what is bound to a NUMA node has to fit beside them. And
// which nodes have some free is not known, so a pod that asks for some uses all nodes.
func TestMemoryBesideHugePages(t *testing.T) {
	top, err := topology.Discover(hugeTree())
	if err != nil {
		t.Fatal(err)
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		name  string
		bytes int64
		huge  bool
		mems  string
	}{
		{"fits beside the huge pages", 4 * gi, false, "0"},
		{"would fit without them", 6 * gi, false, "1"},
		{"asks for huge pages", gi, true, "0-1"},
	}
	for _, test := range tests {
		c := app("app", 2)
		c.MemoryLimit = test.bytes
		pin := pinning(t, []workload.Container{c})
		pin.HugePages = test.huge
		ask := placement.AskOf(pin)
		d, no := placement.Decide(new(alloc.Scratch), placement.Node{Machine: m, AllocatableMilli: 8000}, new(placement.Occupancy), &ask)
		if !no.OK() {
			t.Fatal(no)
		}
		if got := d.Annotation(&ask, hash).Containers["app"]; got.Mems != test.mems {
			t.Errorf("%s: mems %s, want %s", test.name, got.Mems, test.mems)
		}
	}
}

// Memory that is requested and not bound counts in each node with its share.
// What is bound elsewhere does not, and what is bound here counts once.
func TestMemoryBesideRequests(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	bound := func(cpus, bytes int64) workload.Pinning {
		c := app("app", cpus)
		c.MemoryLimit, c.MemoryRequest = bytes, bytes
		p := pinning(t, []workload.Container{c})
		p.ScheduledMemory = bytes
		return p
	}
	var here, there placement.Occupancy
	held := placement.HeldBy(n.Machine, bound(2, 4*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"6-7","mems":"0","policy":"exclusive"}}}`)
	here.Add(n.Machine, &held)
	held = placement.HeldBy(n.Machine, bound(2, 4*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"14-15","mems":"1","policy":"exclusive"}}}`)
	there.Add(n.Machine, &held)
	tests := []struct {
		name      string
		requested int64
		others    placement.Occupancy
		bytes     int64
		mems      string
	}{
		{"alone", 0, placement.Occupancy{}, 8 * gi, "0"},
		{"others leave room", gi / 2, placement.Occupancy{}, 8 * gi, "0"},
		{"a share of what others request fits", gi * 3 / 2, placement.Occupancy{}, 8 * gi, "0"},
		{"it does not", 3 * gi, placement.Occupancy{}, 8 * gi, "0-1"},
		{"bound here", 4 * gi, here, 4 * gi, "0"},
		{"bound here, too much: the other node", 4 * gi, here, 6 * gi, "1"},
		{"bound elsewhere", 4 * gi, there, 4 * gi, "0"},
		{"bound elsewhere, and others", 7 * gi, there, 8 * gi, "0-1"},
	}
	for _, test := range tests {
		n.RequestedMemory = test.requested
		pin := bound(4, test.bytes)
		ask := placement.AskOf(pin)
		d, no := placement.Decide(new(alloc.Scratch), n, &test.others, &ask)
		if !no.OK() {
			t.Fatal(no)
		}
		got := d.Annotation(&ask, hash).Containers["app"]
		want := test.mems
		if want == "0" && !set(t, got.CPUs).IsSubsetOf(set(t, "0-7")) {
			want = "1" // the same of the other node
		}
		if got.Mems != want {
			t.Errorf("%s: CPUs %s, mems %s, want %s", test.name, got.CPUs, got.Mems, want)
		}
	}
}

// A pod of 50 GiB is bound to NUMA node 0, and NUMA node 1 is empty: one of 20 GiB gets
// CPUs and memory there, although NUMA node 0 is fuller. What no node can hold stays
// beside the pod, and may use all nodes. A NUMA node without CPUs is no local one.
func TestNodesThatHoldTheMemoryComeFirst(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 64 * gi}.node(t)
	var o placement.Occupancy
	bound := func(cpus, bytes int64) workload.Pinning {
		c := app("app", cpus)
		c.MemoryLimit, c.MemoryRequest = bytes, bytes
		p := pinning(t, []workload.Container{c})
		p.ScheduledMemory = bytes
		return p
	}
	held := placement.HeldBy(n.Machine, bound(2, 50*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`)
	o.Add(n.Machine, &held)
	n.RequestedMemory = 50 * gi
	for _, test := range []struct {
		name       string
		bytes      int64
		cpus, mems string
	}{
		{"fits beside the other", 7 * gi, "2-3", "0"},
		{"fits into the other node", 20 * gi, "8-9", "1"},
		{"fits nowhere", 60 * gi, "2-3", "0-1"},
	} {
		ask := placement.AskOf(bound(2, test.bytes))
		d, no := placement.Decide(new(alloc.Scratch), n, &o, &ask)
		if got := d.Annotation(&ask, hash).Containers["app"]; !no.OK() || got.CPUs != test.cpus || got.Mems != test.mems {
			t.Errorf("%s: %+v %q, want %s, %s", test.name, got, no, test.cpus, test.mems)
		}
	}
}
