package placement_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	gi   = 1 << 30
	hash = "0123456789abcdef"
)

// shape is a regular machine: NUMA nodes of L3 domains of cores of threads, with one socket per NUMA node. The CPUs are
// numbered thread by thread, as on x86.
type shape struct {
	nodes, l3, cores, threads int
	memory                    int64 // per NUMA node
	huge                      int64 // pages of 1 GiB per NUMA node
	gpus                      int64 // per NUMA node
	reserved, isolated        string
	slow                      int // number of efficiency cores, which come first
}

func (s shape) topology(t testing.TB) *topology.Topology {
	t.Helper()
	top := &topology.Topology{Reserved: set(t, s.reserved), Isolated: set(t, s.isolated)}
	all := s.nodes * s.l3 * s.cores
	core := 0
	for node := range s.nodes {
		var inNode cpuset.Set
		for l3 := range s.l3 {
			var inL3 cpuset.Set
			for range s.cores {
				var cpus cpuset.Set
				for thread := range s.threads {
					cpus = cpus.Add(thread*all + core)
				}
				top.Cores = append(top.Cores, topology.Core{
					ID: topology.CoreID(core), CPUs: cpus,
					Socket: topology.SocketID(node), Node: topology.NodeID(node), L3: topology.L3ID(node*s.l3 + l3),
				})
				if core < s.slow {
					top.Cores[core].Kind = topology.KindEfficiency
				}
				inL3 = inL3.Union(cpus)
				core++
			}
			top.L3 = append(top.L3, topology.L3{ID: topology.L3ID(node*s.l3 + l3), CPUs: inL3})
			inNode = inNode.Union(inL3)
		}
		distances := make([]int, s.nodes)
		for i := range distances {
			distances[i] = 20
		}
		distances[node] = 10
		top.Nodes = append(top.Nodes, topology.Node{ID: topology.NodeID(node), CPUs: inNode, MemoryBytes: s.memory, Distances: distances})
		if s.gpus > 0 {
			top.Devices = []topology.Device{{Resource: "example.com/nic", Nodes: make([]int64, s.nodes)}, {Resource: gpu, Nodes: slices.Repeat([]int64{s.gpus}, s.nodes)}}
		}
		if s.huge > 0 {
			top.Nodes[node].HugePages, top.Nodes[node].HugePageBytes = []topology.HugePages{{PageKiB: 1 << 20, Pages: s.huge}}, s.huge<<30
		}
		top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(node), CPUs: inNode})
		top.Online = top.Online.Union(inNode)
	}
	return top
}

func (s shape) machine(t testing.TB) *alloc.Machine {
	t.Helper()
	m, err := alloc.Compile(s.topology(t))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// node returns a node of this shape whose CPUs are all allocatable.
func (s shape) node(t testing.TB) placement.Node {
	m := s.machine(t)
	return placement.Node{Machine: m, AllocatableMilli: int64(m.Topology().Online.Size()) * 1000}
}

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// app returns a container of n CPUs that requests all of them.
func app(name string, n int64) workload.Container {
	return workload.Container{Name: name, Resources: workload.Resources{CPULimit: n * 1000, CPURequest: n * 1000}}
}

// pinning returns the request of a pod with these containers and additional annotations (key, value, ...).
func pinning(t testing.TB, containers []workload.Container, annotations ...string) workload.Pinning {
	t.Helper()
	p := workload.Pod{Annotations: map[string]string{"cpuset-scheduler": "true"}, Containers: containers}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
	}
	for _, c := range containers {
		p.Scheduled += c.CPURequest
	}
	out, problems := workload.PinningOf(p)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return out
}

func one(t testing.TB, n int64, annotations ...string) workload.Pinning {
	t.Helper()
	return pinning(t, []workload.Container{app("app", n)}, annotations...)
}

// decide places p on the node and fails the test if p is refused.
func decide(t testing.TB, n placement.Node, o *placement.Occupancy, p workload.Pinning) (placement.Decision, placement.Ask) {
	t.Helper()
	a := placement.AskOf(p)
	d, refusal := placement.Decide(&alloc.Scratch{}, n, o, &a)
	if !refusal.OK() {
		t.Fatalf("refused: %s", refusal.Detail())
	}
	return d, a
}

func refused(t testing.TB, n placement.Node, o *placement.Occupancy, p workload.Pinning) placement.Refusal {
	t.Helper()
	a := placement.AskOf(p)
	d, refusal := placement.Decide(&alloc.Scratch{}, n, o, &a)
	if refusal.OK() {
		t.Fatalf("placed on %s", d.Answer.CPUs)
	}
	return refusal
}

// give adds a pod with this annotation to an occupancy.
func give(o *placement.Occupancy, m *alloc.Machine, p workload.Pinning, annotation string) placement.Held {
	h := placement.HeldBy(m, p, annotation)
	o.Add(m, &h)
	return h
}

// written returns the annotation for one container on these CPUs.
func written(cpus, mems string) string {
	return v1alpha1.Placement{V: 1, Topology: hash, Containers: map[string]v1alpha1.ContainerPlacement{
		"app": {CPUs: cpus, Mems: mems, Policy: v1alpha1.PlacementExclusive},
	}}.Encode()
}

func TestAnnotation(t *testing.T) {
	n := shape{nodes: 2, l3: 2, cores: 2, threads: 2, memory: 16 * gi}.node(t)
	const spread = `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`
	memory := func(c workload.Container, bytes int64) workload.Container {
		c.MemoryLimit = bytes
		return c
	}
	perPod := workload.Pod{
		Annotations: map[string]string{"cpuset-scheduler": "true"}, Resources: workload.Resources{CPULimit: 2000, CPURequest: 2000}, Scheduled: 2000,
		Containers: []workload.Container{{Name: "b"}, {Name: "a"}},
	}
	shared, problems := workload.PinningOf(perPod)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	for _, test := range []struct {
		name string
		pod  workload.Pinning
		want string
	}{
		{"one container without memory", one(t, 2), `{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0,8","mems":"0-1","policy":"exclusive"}}}`},
		{
			"bound to its NUMA node", pinning(t, []workload.Container{memory(app("app", 2), 2*gi)}),
			`{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0,8","mems":"0","policy":"exclusive"}}}`,
		},
		{
			"more memory than a NUMA node may give", pinning(t, []workload.Container{memory(app("app", 2), 15*gi)}),
			`{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0,8","mems":"0-1","policy":"exclusive"}}}`,
		},
		{
			"two containers, the larger first", pinning(t, []workload.Container{memory(app("small", 2), gi), app("large", 4)}),
			`{"v":1,"topology":"` + hash + `","containers":{"large":{"cpus":"0-1,8-9","mems":"0-1","policy":"exclusive"},"small":{"cpus":"2,10","mems":"0","policy":"exclusive"}}}`,
		},
		{
			"static-burst", one(t, 3, "cpu-policy", "static-burst"),
			`{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0-1,8","mems":"0-1","policy":"static-burst","domain":"l3:0"}}}`,
		},
		{
			"static-burst beyond an L3", one(t, 6, "cpu-policy", "static-burst"),
			`{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0-2,8-10","mems":"0-1","policy":"static-burst","domain":"numa:0"}}}`,
		},
		{
			"exclusive, siblings empty", one(t, 2, "scheduling.koordinator.sh/resource-spec", `{"requiredCPUBindPolicy":"SpreadByPCPUs","requiredCPUExclusivePolicy":"PCPULevel"}`),
			`{"v":1,"topology":"` + hash + `","exclusive":"PCPULevel","containers":{"app":{"cpus":"0-1","mems":"0-1","policy":"exclusive"}}}`,
		},
		{
			"spread", one(t, 2, "scheduling.koordinator.sh/resource-spec", spread),
			`{"v":1,"topology":"` + hash + `","containers":{"app":{"cpus":"0-1","mems":"0-1","policy":"exclusive"}}}`,
		},
		{
			"one set for all", shared,
			`{"v":1,"topology":"` + hash + `","containers":{"a":{"cpus":"0,8","mems":"0-1","policy":"exclusive"},"b":{"cpus":"0,8","mems":"0-1","policy":"exclusive"}}}`,
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			var o placement.Occupancy
			d, a := decide(t, n, &o, test.pod)
			got := d.Annotation(&a, hash)
			if diff := cmp.Diff(test.want, got.Encode()); diff != "" {
				t.Errorf("annotation (-want +got):\n%s", diff)
			}
			if _, problems := v1alpha1.DecodePlacement(got.Encode()); len(problems) > 0 {
				t.Errorf("not readable: %v", problems)
			}
		})
	}
}

func TestHeldBy(t *testing.T) {
	m := shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 16 * gi, reserved: "0,8"}.machine(t)
	changed := one(t, 2)
	changed.Change.Changed = true
	keyless := func(resized bool, containers ...workload.Container) workload.Pinning {
		p := workload.Pod{Annotations: map[string]string{v1alpha1.AnnotationPlacement: "x"}, Containers: containers, Changed: resized}
		for _, c := range containers {
			p.Scheduled += c.CPURequest
		}
		out, _ := workload.PinningOf(p)
		return out
	}
	half := workload.Container{Name: "app", Resources: workload.Resources{CPULimit: 1500, CPURequest: 500}}
	burst := strings.Replace(written("1,9", "0"), `"exclusive"`, `"static-burst","domain":"l3:0"`, 1)
	pcpu := one(t, 2, "scheduling.koordinator.sh/resource-spec", `{"preferredCPUExclusivePolicy":"PCPULevel"}`)
	exclusive := strings.Replace(written("1,2", "0"), `"containers"`, `"exclusive":"PCPULevel","containers"`, 1)
	below := pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 500}}})
	two := pinning(t, []workload.Container{app("app", 2), app("other", 1)})
	for _, test := range []struct {
		name       string
		pod        workload.Pinning
		annotation string
		cpus       string
		unknown    int
		extra      int64
	}{
		{"as written", one(t, 2), written("1,9", "0"), "1,9", 0, 0},
		{"request below limit", below, written("1,9", "0"), "1,9", 0, 1500},
		{"not asked", workload.Pinning{}, written("1,9", "0"), "", 0, 0},
		{"missing", below, "", "", 2, 1500},
		{"no JSON", one(t, 2), "{", "", 2, 0},
		{"a later version", one(t, 2), strings.Replace(written("1,9", "0"), `"v":1`, `"v":2`, 1), "", 2, 0},
		{"too many", one(t, 2), written("1-3", "0"), "", 2, 0},
		{"too few", one(t, 2), written("1", "0"), "", 2, 0},
		{"reserved", one(t, 2), written("0-1", "0"), "", 2, 0},
		{"beyond the machine", one(t, 2), written("1,900", "0"), "", 2, 0},
		{"another container", pinning(t, []workload.Container{app("other", 2)}), written("1,9", "0"), "", 2, 0},
		{"one of two", two, written("1,9", "0"), "1,9", 1, 0},
		{"the same CPUs for two", two, strings.Replace(written("1,9", "0"), `"containers":{`, `"containers":{"other":{"cpus":"9","mems":"0","policy":"exclusive"},`, 1), "1,9", 1, 0},
		{"a field of the future", one(t, 2), strings.Replace(written("1,9", "0"), `"v":1`, `"v":1,"x":{}`, 1), "1,9", 0, 0},
		{"exclusive, siblings count", pcpu, exclusive, "1-2", 0, 2000},
		{"exclusive without asking", one(t, 2), exclusive, "1-2", 0, 0},
		{"resized from 3", changed, written("1-3", "0"), "1-3", 0, 1000},
		{"resized from 1", changed, written("1", "0"), "1", 0, 0},
		{"resized to a fraction", keyless(true, half), written("1", "0"), "1", 0, 500},
		{"keys removed", keyless(false, workload.Container{Name: "app", Resources: workload.Resources{CPULimit: 2000, CPURequest: 500}}), written("1,9", "0"), "1,9", 0, 1500},
		{"keys removed, another count", keyless(false, app("app", 2)), written("1", "0"), "", 0, 0},
		{"keys removed, not pinnable", keyless(false, app("app", 2)), written("0-1", "0"), "", 0, 0},
		{"keys removed, another container", keyless(false, app("other", 2)), written("1,9", "0"), "", 0, 0},
		{"keys removed, never whole", keyless(false, half), written("1,9", "0"), "", 0, 0},
		{"keys removed, rounded up", keyless(false, half), burst, "1,9", 0, 1500},
		{"static-burst removed from one of two", pinning(t, []workload.Container{half, app("other", 1)}), burst, "1,9", 1, 1500},
		{"never placed anywhere", pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 5_000_000, CPURequest: 1}}}), "", "", 0, 0},
		{"the last core never goes", pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 13_000, CPURequest: 1}}}), "", "", 0, 0},
		{"all but the last core", pinning(t, []workload.Container{{Name: "app", Resources: workload.Resources{CPULimit: 12_000, CPURequest: 1}}}), "", "", 12, 11_999},
		{"no more than there are", pinning(t, []workload.Container{app("app", 2), app("other", 5000)}), written("1,9", "0"), "1,9", 12, 0},
	} {
		t.Run(test.name, func(t *testing.T) {
			h := placement.HeldBy(m, test.pod, test.annotation)
			if h.CPUs() != set(t, test.cpus) || h.Unknown() != test.unknown || h.ExtraMilli() != test.extra {
				t.Errorf("CPUs %q, unknown %d, extra %d; want %q, %d, %d", h.CPUs(), h.Unknown(), h.ExtraMilli(), test.cpus, test.unknown, test.extra)
			}
		})
	}
	if h := placement.HeldBy(nil, one(t, 2), written("1,9", "0")); h.Unknown() != 2 || !h.CPUs().IsEmpty() {
		t.Errorf("without a machine: %+v", h)
	}
}

func TestHeldByShared(t *testing.T) {
	m := shape{nodes: 1, l3: 1, cores: 4, threads: 1}.machine(t)
	asked := workload.Pod{
		Annotations: map[string]string{"cpuset-scheduler": "true", v1alpha1.AnnotationPlacement: "x"},
		Resources:   workload.Resources{CPULimit: 2000}, Scheduled: 500, Containers: []workload.Container{{Name: "a"}, {Name: "b"}},
	}
	p, _ := workload.PinningOf(asked)
	delete(asked.Annotations, "cpuset-scheduler")
	gone, _ := workload.PinningOf(asked)
	both := func(a, b string) string {
		return v1alpha1.Placement{V: 1, Topology: hash, Containers: map[string]v1alpha1.ContainerPlacement{
			"a": {CPUs: a, Mems: "0", Policy: v1alpha1.PlacementExclusive}, "b": {CPUs: b, Mems: "0", Policy: v1alpha1.PlacementExclusive},
		}}.Encode()
	}
	for annotation, want := range map[string]string{both("0-1", "0-1"): "0-1", both("0-1", "2-3"): "", both("0", "0"): ""} {
		h := placement.HeldBy(m, p, annotation)
		if h.CPUs() != set(t, want) || h.ExtraMilli() != 1500 || (h.Unknown() == 0) != (want != "") {
			t.Errorf("%s: CPUs %q, unknown %d, extra %d", annotation, h.CPUs(), h.Unknown(), h.ExtraMilli())
		}
		if h := placement.HeldBy(m, gone, annotation); h.CPUs() != set(t, want) || h.Unknown() != 0 || (h.ExtraMilli() == 1500) != (want != "") {
			t.Errorf("%s, without keys: CPUs %q, unknown %d, extra %d", annotation, h.CPUs(), h.Unknown(), h.ExtraMilli())
		}
	}
}

func TestOverlaps(t *testing.T) {
	m := shape{nodes: 1, l3: 1, cores: 4, threads: 2}.machine(t)
	pcpu := one(t, 1, "scheduling.koordinator.sh/resource-spec", `{"requiredCPUExclusivePolicy":"PCPULevel"}`)
	alone := strings.Replace(written("3", "0"), `"containers"`, `"exclusive":"PCPULevel","containers"`, 1)
	var o placement.Occupancy
	give(&o, m, one(t, 2), written("0-1", "0"))
	give(&o, m, one(t, 2), written("1-2", "0"))
	give(&o, m, one(t, 1), written("7", "0"))
	if o.Overlaps != set(t, "1") || o.Taken.CPUs() != set(t, "0-2,7") {
		t.Errorf("overlaps %q, taken %q", o.Overlaps, o.Taken.CPUs())
	}
	give(&o, m, pcpu, alone)
	if o.Overlaps != set(t, "1,7") || o.Taken.CPUs() != set(t, "0-3,7") {
		t.Errorf("with a sibling that should be empty: overlaps %q, taken %q", o.Overlaps, o.Taken.CPUs())
	}
}
