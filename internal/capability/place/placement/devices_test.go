package placement_test

import (
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
)

const gpu = "example.com/gpu"

// twoWithGPUs has four GPUs in each of two NUMA nodes.
var twoWithGPUs = shape{nodes: 2, l3: 1, cores: 16, threads: 1, gpus: 4}

// gpuPod returns a pod that asks for GPUs and for a device without a NUMA node.
func gpuPod(t testing.TB, cpus, gpus int64, annotations ...string) workload.Pinning {
	t.Helper()
	p := pinning(t, []workload.Container{app("app", cpus)}, annotations...)
	p.Besides.Devices = []workload.Device{{Resource: "example.com/fuse", Count: 1}, {Resource: gpu, Count: gpus}}
	return p
}

// memoryPod returns a pod with two CPUs, memory and GPUs.
func memoryPod(t testing.TB, gib, gpus int64) workload.Pinning {
	c := app("app", 2)
	c.MemoryLimit, c.MemoryRequest = gib*gi, gib*gi
	p := pinning(t, []workload.Container{c})
	p.Besides.ScheduledMemory = gib * gi
	if gpus > 0 {
		p.Besides.Devices = []workload.Device{{Resource: gpu, Count: gpus}}
	}
	return p
}

// put places a pod and adds it to the node.
func put(t *testing.T, n *placement.Node, o *placement.Occupancy, p workload.Pinning) placement.Decision {
	t.Helper()
	ask := placement.AskOf(p)
	d, no := placement.Decide(new(alloc.Scratch), *n, o, &ask)
	if !no.OK() {
		t.Fatal(no.Detail())
	}
	held := d.Held(&ask)
	o.Add(n.Machine, &held)
	n.RequestedMilli += p.Scheduled
	for k, count := range placement.CountDevices(n.Machine.Topology(), p.Besides.Devices) {
		n.RequestedDevices[k] += count
	}
	return d
}

// CPUs are chosen beside free devices. After two GPUs of NUMA node 0 are taken, a pod with three GPUs goes to node 1,
// although node 0 is fuller. If the nodes have equally many devices, the free CPUs decide.
func TestCPUsBesideDevices(t *testing.T) {
	n, o := twoWithGPUs.node(t), placement.Occupancy{}
	for _, step := range []struct {
		name       string
		cpus, gpus int64
		want       string
		far        int
	}{
		{"first", 4, 2, "0-3", 0},
		{"three of the other node", 4, 3, "16-19", 0},
		{"the last two of the first", 8, 2, "4-11", 0},
		{"the last of the second", 2, 1, "20-21", 0},
		{"none left", 2, 1, "12-13", 1},
	} {
		if d := put(t, &n, &o, gpuPod(t, step.cpus, step.gpus)); d.Answer.CPUs != set(t, step.want) || d.Answer.Vector.FarDevices != step.far {
			t.Errorf("%s: CPUs %s, far %d; want %s, %d", step.name, d.Answer.CPUs, d.Answer.Vector.FarDevices, step.want, step.far)
		}
	}
}

// A pod with the GPUs of both NUMA nodes gets CPUs in both, evenly, although one node could hold all of them. A pod
// that requires a single NUMA node gets CPUs in one, and its decision reports the far device.
func TestCPUsWhereverTheDevicesAre(t *testing.T) {
	const spec = "scheduling.koordinator.sh/numa-topology-spec"
	for _, test := range []struct {
		name       string
		annotation []string
		cpus       string
		far        int
	}{
		{"as it likes", nil, "0-3,16-19", 0},
		{"few nodes", []string{spec, `{"numaTopologyPolicy":"Restricted"}`}, "0-3,16-19", 0},
		{"one node", []string{spec, `{"numaTopologyPolicy":"SingleNUMANode"}`}, "0-7", 1},
	} {
		n, o := twoWithGPUs.node(t), placement.Occupancy{}
		if d := put(t, &n, &o, gpuPod(t, 8, 8, test.annotation...)); d.Answer.CPUs != set(t, test.cpus) || d.Answer.Vector.FarDevices != test.far {
			t.Errorf("%s: CPUs %s, far %d; want %s, %d", test.name, d.Answer.CPUs, d.Answer.Vector.FarDevices, test.cpus, test.far)
		}
	}
	four, o := shape{nodes: 4, l3: 1, cores: 8, threads: 1, gpus: 2}.node(t), placement.Occupancy{}
	put(t, &four, &o, gpuPod(t, 2, 2))
	if d := put(t, &four, &o, gpuPod(t, 4, 4)); d.Answer.Vector.NUMANodes != 2 || d.Answer.Vector.FarDevices > 0 || d.Answer.Nodes.Contains(0) {
		t.Errorf("CPUs %s, far %d", d.Answer.CPUs, d.Answer.Vector.FarDevices)
	}
}

// The devices of a pod without its own CPUs may be in any NUMA node. The devices of a pod with CPUs in both nodes are
// in both.
func TestDevicesOfOtherPods(t *testing.T) {
	n, o := twoWithGPUs.node(t), placement.Occupancy{}
	n.RequestedDevices[1] = 4
	if d := put(t, &n, &o, gpuPod(t, 2, 2)); d.Answer.Vector.FarDevices > 0 || d.Answer.CPUs != set(t, "0-1") {
		t.Errorf("beside four somewhere: CPUs %s, far %d", d.Answer.CPUs, d.Answer.Vector.FarDevices)
	}
	if d := put(t, &n, &o, gpuPod(t, 2, 2)); d.Answer.Vector.FarDevices > 0 || d.Answer.CPUs != set(t, "16-17") {
		t.Errorf("the last two: CPUs %s, far %d", d.Answer.CPUs, d.Answer.Vector.FarDevices)
	}
	n, o = twoWithGPUs.node(t), placement.Occupancy{}
	put(t, &n, &o, gpuPod(t, 2, 6))
	if d := put(t, &n, &o, gpuPod(t, 2, 2)); d.Answer.Vector.FarDevices > 0 && d.Answer.Vector.NUMANodes < 2 {
		t.Errorf("beside six in both: CPUs %s, far %d", d.Answer.CPUs, d.Answer.Vector.FarDevices)
	}
}

// TestDevicesBeforeMemory: one NUMA node has the pod's GPUs and the other its memory. The pod gets CPUs beside its GPUs,
// although the other node is fuller.
func TestDevicesBeforeMemory(t *testing.T) {
	for _, test := range []struct{ memory, gpus, want string }{ // of which NUMA node other pods have all
		{"0-1", "16-19", "2-3"},
		{"16-17", "0-3", "18-19"},
	} {
		n, o := shape{nodes: 2, l3: 1, cores: 16, threads: 1, memory: 64 * gi, gpus: 4}.node(t), placement.Occupancy{}
		give(&o, n.Machine, memoryPod(t, 50, 0), written(test.memory, n.Machine.Topology().NodesOf(set(t, test.memory)).String()))
		give(&o, n.Machine, gpuPod(t, 4, 4), written(test.gpus, "0-1"))
		n.RequestedMemory, n.RequestedDevices[1] = 50*gi, 4
		d, _ := decide(t, n, &o, memoryPod(t, 20, 2))
		if d.Answer.CPUs != set(t, test.want) || d.Answer.Vector.Unheld != 1 {
			t.Errorf("memory of %s and GPUs of %s taken: CPUs %s, %+v; want %s", test.memory, test.gpus, d.Answer.CPUs, d.Answer.Vector, test.want)
		}
	}
}

// TestSpanHoldsTheMemory: the GPUs of any two of four equally far NUMA nodes suffice, but node 0 has little memory left.
func TestSpanHoldsTheMemory(t *testing.T) {
	n, o := shape{nodes: 4, l3: 1, cores: 8, threads: 1, memory: 64 * gi, gpus: 2}.node(t), placement.Occupancy{}
	give(&o, n.Machine, memoryPod(t, 50, 0), written("0-1", "0"))
	n.RequestedMemory = 50 * gi
	d, _ := decide(t, n, &o, memoryPod(t, 80, 4))
	if v := d.Answer.Vector; v.NUMANodes != 2 || v.Unheld > 0 || d.Answer.Nodes.Contains(0) {
		t.Errorf("CPUs %s, %+v", d.Answer.CPUs, v)
	}
}

// TestSpanHoldsTheCPUs: the first sets of NUMA nodes that have the GPUs have too few free CPUs.
func TestSpanHoldsTheCPUs(t *testing.T) {
	for _, test := range []struct {
		name, held, gpus string // CPUs of other pods, and of one that has all GPUs of its NUMA nodes
		cpus             int64
		want             string // NUMA nodes
	}{
		{"two others have room", "0-15", "", 4, "2-3"},
		{"only a larger set has room", "0-5,8-13", "16,24", 7, "0-2"},
	} {
		n, o := shape{nodes: 4, l3: 1, cores: 8, threads: 1, gpus: 2}.node(t), placement.Occupancy{}
		give(&o, n.Machine, one(t, int64(set(t, test.held).Size())), written(test.held, "0-1"))
		if test.gpus != "" {
			give(&o, n.Machine, gpuPod(t, 2, 4), written(test.gpus, "2-3"))
			n.RequestedDevices[1] = 4
		}
		d, _ := decide(t, n, &o, gpuPod(t, test.cpus, 4))
		if d.Answer.Vector.FarDevices > 0 || d.Answer.Nodes != set(t, test.want) {
			t.Errorf("%s: CPUs %s, far %d; want NUMA nodes %s", test.name, d.Answer.CPUs, d.Answer.Vector.FarDevices, test.want)
		}
	}
}

// Near devices take precedence over few NUMA nodes, also between nodes of the cluster. Pods with different devices have
// different shapes.
func TestDevicesInScoreAndShape(t *testing.T) {
	near, o := twoWithGPUs.node(t), placement.Occupancy{}
	squeezed, busy := near, placement.Occupancy{}
	held := placement.HeldBy(squeezed.Machine, one(t, 16), written("16-31", "1"))
	busy.Add(squeezed.Machine, &held)
	good, bad := put(t, &near, &o, gpuPod(t, 8, 8)), put(t, &squeezed, &busy, gpuPod(t, 8, 8))
	if bad.Answer.Vector.FarDevices == 0 || placement.Score(&good) <= placement.Score(&bad) {
		t.Errorf("in two NUMA nodes %d, in one with half of the GPUs %d", placement.Score(&good), placement.Score(&bad))
	}
	a, b := placement.AskOf(gpuPod(t, 2, 1)), placement.AskOf(gpuPod(t, 2, 2))
	if a.Shape == b.Shape {
		t.Error("one GPU and two are the same")
	}
}
