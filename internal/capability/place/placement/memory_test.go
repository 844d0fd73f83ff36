package placement_test

import (
	"fmt"
	"slices"
	"testing"
	"testing/fstest"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
)

// hugeTree returns a host of two NUMA nodes with four CPUs and 10 GiB each. Node 0 has 5 GiB in huge pages of two
// sizes.
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

// Huge pages are reserved memory, so other memory that is bound to a NUMA node must fit beside them. A pod that asks
// for huge pages is bound to a node with enough pages of that size.
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
		huge  workload.HugePages
		mems  string
	}{
		{"fits beside the huge pages", 4 * gi, workload.HugePages{}, "0"},
		{"would fit without them", 6 * gi, workload.HugePages{}, "1"},
		{"asks for huge pages", gi, workload.HugePages{{Size: 2 << 20, Bytes: gi}, {Size: gi, Bytes: 4 * gi}}, "0"},
		{"for more of a size than there are", gi, workload.HugePages{{Size: 2 << 20, Bytes: 2 * gi}}, "0-1"},
		{"for a size that is not there", gi, workload.HugePages{{Size: 64 << 10, Bytes: gi}}, "0-1"},
		{"for more memory than is beside them", 6 * gi, workload.HugePages{{Size: gi, Bytes: gi}}, "0-1"},
	}
	for _, test := range tests {
		c := app("app", 2)
		c.MemoryLimit = test.bytes
		pin := pinning(t, []workload.Container{c})
		pin.Pinned[0].Huge, pin.Pinned[0].HugeRequest, pin.Besides.ScheduledHuge = test.huge, test.huge, test.huge
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

// Requested but unbound memory counts with its share on each node. Memory that is bound elsewhere does not count, and
// memory that is bound here counts once.
func TestMemoryBesideRequests(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 10 * gi}.node(t)
	bound := func(cpus, bytes int64) workload.Pinning {
		c := app("app", cpus)
		c.MemoryLimit, c.MemoryRequest = bytes, bytes
		p := pinning(t, []workload.Container{c})
		p.Besides.ScheduledMemory = bytes
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
			want = "1" // the same on the other node
		}
		if got.Mems != want {
			t.Errorf("%s: CPUs %s, mems %s, want %s", test.name, got.CPUs, got.Mems, want)
		}
	}
}

// memoryOnly adds a NUMA node without CPUs to a machine, such as a CXL expander or the memory of a GPU.
func (s shape) memoryOnly(t testing.TB, bytes int64) placement.Node {
	t.Helper()
	top := s.topology(t)
	distances := slices.Repeat([]int{24}, s.nodes+1)
	distances[s.nodes] = 10
	for i := range top.Nodes {
		top.Nodes[i].Distances = append(top.Nodes[i].Distances, 24)
	}
	top.Nodes = append(top.Nodes, topology.Node{ID: topology.NodeID(s.nodes), MemoryBytes: bytes, Distances: distances})
	for i := range top.Devices {
		top.Devices[i].Nodes = append(top.Devices[i].Nodes, 0)
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	return placement.Node{Machine: m, AllocatableMilli: int64(top.Online.Size()) * 1000}
}

// NUMA node 0 has a bound pod of 50 GiB and node 1 is empty. A pod of 20 GiB gets CPUs and memory on node 1, although
// node 0 is fuller. A pod that no node can hold may use all nodes. A NUMA node without CPUs is nobody's local node: no
// pod is bound to it alone, none prefers other CPUs because of it, and unbound memory has no share there.
func TestNodesThatHoldTheMemoryComeFirst(t *testing.T) {
	s := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 64 * gi}
	t.Run("memory beside CPUs", func(t *testing.T) { testMemoryComesFirst(t, s.node(t), "0-1") })
	t.Run("a node of memory only", func(t *testing.T) { testMemoryComesFirst(t, s.memoryOnly(t, 512*gi), "0-2") })
}

// testMemoryComesFirst is the test for one machine, whose memory is in the NUMA nodes of all.
func testMemoryComesFirst(t *testing.T, n placement.Node, all string) {
	var o placement.Occupancy
	bound := func(cpus, bytes int64) workload.Pinning {
		c := app("app", cpus)
		c.MemoryLimit, c.MemoryRequest = bytes, bytes
		p := pinning(t, []workload.Container{c})
		p.Besides.ScheduledMemory = bytes
		return p
	}
	held := placement.HeldBy(n.Machine, bound(2, 50*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`)
	o.Add(n.Machine, &held)
	for _, test := range []struct {
		name           string
		bytes, unbound int64
		cpus, mems     string
	}{
		{"fits beside the other", 7 * gi, 0, "2-3", "0"},
		{"fits into the other node", 20 * gi, 0, "8-9", "1"},
		{"fits nowhere", 60 * gi, 0, "2-3", all},
		{"beside half of what others request", 47 * gi, 20 * gi, "8-9", "1"},
		{"half is too much", 48 * gi, 20 * gi, "2-3", all},
	} {
		n.RequestedMemory = 50*gi + test.unbound
		ask := placement.AskOf(bound(2, test.bytes))
		d, no := placement.Decide(new(alloc.Scratch), n, &o, &ask)
		if got := d.Annotation(&ask, hash).Containers["app"]; !no.OK() || got.CPUs != test.cpus || got.Mems != test.mems {
			t.Errorf("%s: %+v %q, want %s, %s", test.name, got, no, test.cpus, test.mems)
		}
	}
}

// hugePod returns a pod of one container with the given CPUs, 1 GiB of memory, and huge pages of 1 GiB.
func hugePod(t testing.TB, cpus, bytes int64) workload.Pinning {
	t.Helper()
	c := app("app", cpus)
	c.MemoryLimit, c.MemoryRequest = gi, gi
	c.Huge.Put(gi, bytes)
	p := pinning(t, []workload.Container{c})
	p.Besides.ScheduledMemory, p.Besides.ScheduledHuge = gi, c.Huge
	return p
}

// Two pods of 50 and 40 GiB of huge pages do not fit into one NUMA node of 64. Each is bound to a different node, with
// its CPUs. Neither node has room for a third pod of 30 GiB. If the agent does not report the nodes of the huge pages,
// no pod is bound.
func TestHugePagesArePromisedOnce(t *testing.T) {
	s := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 80 * gi, huge: 64}
	n := s.node(t)
	var o placement.Occupancy
	for _, step := range []struct {
		gib        int64
		cpus, mems string
	}{{50, "0-1", "0"}, {40, "8-9", "1"}, {30, "2-3", "0-1"}, {10, "4-5", "0-1"}} {
		ask := placement.AskOf(hugePod(t, 2, step.gib*gi))
		d, no := placement.Decide(new(alloc.Scratch), n, &o, &ask)
		if got := d.Annotation(&ask, hash).Containers["app"]; !no.OK() || got.CPUs != step.cpus || got.Mems != step.mems {
			t.Errorf("%d GiB: %+v %q, want %s, %s", step.gib, got, no, step.cpus, step.mems)
		}
		held := d.Held(&ask)
		o.Add(n.Machine, &held)
		n.RequestedMemory += gi
		n.RequestedHuge.Put(gi, step.gib*gi)
	}
	top := s.topology(t)
	for i := range top.Nodes {
		top.Nodes[i].HugePages = nil
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	ask := placement.AskOf(hugePod(t, 2, gi))
	d, no := placement.Decide(new(alloc.Scratch), placement.Node{Machine: m, AllocatableMilli: 16000}, new(placement.Occupancy), &ask)
	if got := d.Annotation(&ask, hash).Containers["app"]; !no.OK() || got.Mems != "0-1" {
		t.Errorf("pools not known: %+v %q", got, no)
	}
}

// Huge pages of unbound pods may be on any node, so they count on every NUMA node. Once those pods are bound, they
// count only on their own node.
func TestHugePagesBesideRequests(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 80 * gi, huge: 64}.node(t)
	n.RequestedHuge.Put(gi, 40*gi)
	mems := func(o *placement.Occupancy, gib int64) string {
		ask := placement.AskOf(hugePod(t, 2, gib*gi))
		d, no := placement.Decide(new(alloc.Scratch), n, o, &ask)
		if !no.OK() {
			t.Fatal(no)
		}
		return d.Annotation(&ask, hash).Containers["app"].Mems
	}
	var o placement.Occupancy
	if fits, not := mems(&o, 24), mems(&o, 25); fits != "0" || not != "0-1" {
		t.Errorf("beside 40 GiB somewhere: 24 GiB in %s, 25 GiB in %s", fits, not)
	}
	held := placement.HeldBy(n.Machine, hugePod(t, 2, 40*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"0-1","mems":"0","policy":"exclusive"}}}`)
	o.Add(n.Machine, &held)
	if fits, not := mems(&o, 24), mems(&o, 25); fits != "0" || not != "1" {
		t.Errorf("beside 40 GiB in node 0: 24 GiB in %s, 25 GiB in %s", fits, not)
	}
	if o.Overbound(n.Machine, &held) {
		t.Error("40 of 64 GiB are too much")
	}
	more := placement.HeldBy(n.Machine, hugePod(t, 2, 30*gi), `{"v":1,"topology":"`+hash+`","containers":{"app":{"cpus":"2-3","mems":"0","policy":"exclusive"}}}`)
	if o.Add(n.Machine, &more); !o.Overbound(n.Machine, &more) {
		t.Error("70 of 64 GiB are not too much")
	}
}

// A binder counts earlier pods: 60 GiB on one NUMA node of 100, then 100 GiB on this and another node. Bind checks
// later and knows no order, and must accept both. They may be two containers of one pod, or two pods. Only a set that
// fits in no order is too much.
func TestOverboundNeedsNoOrder(t *testing.T) {
	m := shape{nodes: 4, l3: 1, cores: 8, threads: 1, memory: 200 * gi, huge: 100}.machine(t)
	held := func(gib int64, cpus, mems string) *placement.Held {
		h := placement.HeldBy(m, hugePod(t, 2, gib*gi), written(cpus, mems))
		return &h
	}
	narrow, wide, rival := held(60, "2-3", "0"), held(100, "4,12", "0-1"), held(50, "6-7", "0")
	elsewhere := held(90, "16-17", "2")
	var o placement.Occupancy
	for _, h := range []*placement.Held{narrow, wide, elsewhere} {
		o.Add(m, h)
	}
	if o.Overbound(m, narrow) || o.Overbound(m, wide) {
		t.Error("60 GiB of NUMA node 0 and 100 of both are too much")
	}
	if o.Add(m, rival); !o.Overbound(m, narrow) || !o.Overbound(m, wide) || o.Overbound(m, elsewhere) {
		t.Error("110 of 100 GiB are not too much")
	}
}

// Memory that the kubelet assigned to NUMA nodes counts there, once, and the requests behind it count nowhere else. A
// pod is placed beside it. Memory of unknown nodes or of all nodes is ignored.
func TestMemoryBesideKubelets(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 80 * gi, huge: 16}.node(t)
	n.RequestedMemory = 40 * gi
	n.RequestedHuge.Put(gi, 10*gi)
	top := n.Machine.Topology()
	given := placement.GivenBy(top, []v1alpha1.KubeletMemory{
		{NUMANodes: "0", Bytes: 30 * gi},
		{NUMANodes: "0", Bytes: 10 * gi},
		{NUMANodes: "0", PageKiB: 1 << 20, Bytes: 10 * gi},
		{NUMANodes: "0-1", Bytes: 60 * gi},
		{NUMANodes: "7", Bytes: 60 * gi},
		{NUMANodes: "x", Bytes: 60 * gi},
		{NUMANodes: "1", Bytes: -60 * gi},
		{NUMANodes: "1", PageKiB: -1, Bytes: 60 * gi},
		{NUMANodes: "1", PageKiB: 1 << 50, Bytes: gi},
	})
	tests := []struct {
		name         string
		memory, huge int64
		cpus, mems   string
	}{
		{"fits beside it", 17 * gi, 0, "0-1", "0"},
		{"fits in the other node only", 18 * gi, 0, "8-9", "1"},
		{"fits nowhere", 58 * gi, 0, "0-1", "0-1"},
		{"its huge pages are in this node", gi, 6 * gi, "0-1", "0"},
		{"in the other node only", gi, 7 * gi, "8-9", "1"},
	}
	for _, test := range tests {
		pin := hugePod(t, 2, test.huge)
		pin.Pinned[0].Memory, pin.Pinned[0].MemoryRequest, pin.Besides.ScheduledMemory = test.memory, test.memory, test.memory
		ask := placement.AskOf(pin)
		var o placement.Occupancy
		o.AddGiven(given)
		d, no := placement.Decide(new(alloc.Scratch), n, &o, &ask)
		if got := d.Annotation(&ask, hash).Containers["app"]; !no.OK() || got.CPUs != test.cpus || got.Mems != test.mems {
			t.Errorf("%s: %+v %q, want %s, %s", test.name, got, no, test.cpus, test.mems)
		}
	}
	if !given.Equal(placement.GivenBy(top, []v1alpha1.KubeletMemory{{NUMANodes: "0", PageKiB: 1 << 20, Bytes: 10 * gi}, {NUMANodes: "0", Bytes: 40 * gi}})) {
		t.Error("the same memory in another order is other memory")
	}
	var o placement.Occupancy
	o.AddGiven(given)
	own := placement.HeldBy(n.Machine, hugePod(t, 2, 7*gi), written("0-1", "0"))
	if o.Add(n.Machine, &own); !o.Overbound(n.Machine, &own) {
		t.Error("17 of 16 GiB are not too much")
	}
}
