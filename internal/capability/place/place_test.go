package place_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/node/observed"
	"github.com/berth-project/berth/internal/value/cpuset"
)

const (
	gi   = 1 << 30
	hash = "0123456789abcdef"
)

// shape is a regular machine: NUMA nodes of L3 domains of cores of threads. CPUs are numbered thread by thread, as on
// x86.
type shape struct {
	nodes, l3, cores, threads    int
	memory                       int64 // of a NUMA node
	reserved, isolated, switched string
}

// two has two NUMA nodes of four cores of two threads: node 0 has CPUs
// 0-3,8-11, node 1 has 4-7,12-15, and CPU n+8 is the sibling of n.
func two() shape { return shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 64 * gi} }

func (s shape) machine(t testing.TB) *alloc.Machine {
	t.Helper()
	off := set(t, s.switched)
	top := &topology.Topology{Reserved: set(t, s.reserved), Isolated: set(t, s.isolated), Offline: off}
	all, core := s.nodes*s.l3*s.cores, 0
	for node := range s.nodes {
		var inNode cpuset.Set
		for l3 := range s.l3 {
			var inL3 cpuset.Set
			for range s.cores {
				var cpus cpuset.Set
				for thread := range s.threads {
					cpus = cpus.Add(thread*all + core)
				}
				if cpus = cpus.Difference(off); !cpus.IsEmpty() {
					first, _ := cpus.Min()
					top.Cores = append(top.Cores, topology.Core{
						ID: topology.CoreID(first), CPUs: cpus,
						Socket: topology.SocketID(node), Node: topology.NodeID(node), L3: topology.L3ID(node*s.l3 + l3),
					})
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
		top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(node), CPUs: inNode})
		top.Online = top.Online.Union(inNode)
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func (s shape) facts(t testing.TB) place.Facts {
	t.Helper()
	m := s.machine(t)
	return place.Facts{Machine: m, Hash: hash, AllocatableMilli: int64(m.Topology().Online.Size()) * 1000, Pinnable: true}
}

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// at returns a time, in seconds after a fixed start.
func at(seconds int) time.Time { return time.Unix(int64(1_700_000_000+seconds), 0) }

// app returns a container that requests n CPUs, all of its limit.
func app(name string, n int64) workload.Container {
	return workload.Container{Name: name, Resources: workload.Resources{CPULimit: n * 1000, CPURequest: n * 1000, MemoryLimit: gi}}
}

// pod returns a pod that asks for exclusive CPUs.
func pod(uid string, since int, containers ...workload.Container) workload.Pod {
	p := plain(uid, since, containers...)
	p.Annotations["cpuset-scheduler"] = "true"
	return p
}

// plain returns a pod that does not ask for exclusive CPUs.
func plain(uid string, since int, containers ...workload.Container) workload.Pod {
	p := workload.Pod{
		Namespace: "ns", Name: uid, UID: uid, Annotations: map[string]string{}, Labels: map[string]string{}, Containers: containers,
		Bound: at(since),
	}
	for _, c := range containers {
		p.Scheduled += c.CPURequest
	}
	return p
}

// with returns the pod with an additional annotation.
func with(p workload.Pod, key, value string) workload.Pod {
	annotations := map[string]string{key: value}
	for k, v := range p.Annotations {
		if k != key {
			annotations[k] = v
		}
	}
	p.Annotations = annotations
	return p
}

// placed returns the pod with a placement: name, cpus, mems, ...
func placed(p workload.Pod, parts ...string) workload.Pod {
	return with(p, v1alpha1.AnnotationPlacement, written(parts...))
}

func written(parts ...string) string {
	w := v1alpha1.Placement{V: 1, Topology: hash, Containers: map[string]v1alpha1.ContainerPlacement{}}
	for i := 0; i < len(parts); i += 3 {
		w.Containers[parts[i]] = v1alpha1.ContainerPlacement{CPUs: parts[i+1], Mems: parts[i+2], Policy: v1alpha1.PlacementExclusive}
	}
	return w.Encode()
}

// create asks the Node about a container. A refusal fails the test.
func create(t testing.TB, n *place.Node, uid, name string) place.Answer {
	t.Helper()
	a, err := n.Create(uid, name, uid+"/"+name)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// start creates a container, and shows it running on the answered CPUs, or on all CPUs without an answer.
func start(t testing.TB, n *place.Node, uid, name string) place.Answer {
	t.Helper()
	a := create(t, n, uid, name)
	cpus := set(t, "0-1023")
	if len(a.Own) > 0 {
		cpus = a.Own[0].CPUs
	}
	n.Pods.Observe(observed.Container{ID: uid + "/" + name, PodUID: uid, Name: name, Phase: observed.Running, CPUs: cpus})
	return a
}

// has returns what is desired, sorted, as "pod/container cpus[!]". The mark means exclusive CPUs.
func has(n *place.Node) string { return show(n.Desired()) }

func show(desired []place.Desired) string {
	var all []string
	for _, d := range desired {
		mark := ""
		if d.Pinned {
			mark = "!"
		}
		all = append(all, fmt.Sprintf("%s %s%s", d.ContainerID, d.CPUs, mark))
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// events returns the events as "uid reason [annotation]: text".
func events(n *place.Node) string {
	var all []string
	for _, one := range n.Events() {
		line := one.PodUID + " " + one.Reason
		if one.Annotation != nil {
			line += " [" + parts(one.Annotation) + "]"
		}
		if one.Unplaced {
			line += "[removed]"
		}
		if one.Text != "" {
			line += ": " + one.Text
		}
		all = append(all, line)
	}
	return strings.Join(all, "\n")
}

func parts(p *v1alpha1.Placement) string {
	var all []string
	for name, c := range p.Containers {
		all = append(all, name+" "+c.CPUs+" on "+c.Mems)
	}
	slices.Sort(all)
	return strings.Join(all, ", ")
}

func equal(t *testing.T, what, got, want string) {
	t.Helper()
	if got != want {
		t.Errorf("%s:\n got %s\nwant %s", what, got, want)
	}
}

func holds(t *testing.T, what, text string, words ...string) {
	t.Helper()
	for _, word := range words {
		if !strings.Contains(text, word) {
			t.Errorf("%s: %q lacks %q", what, text, word)
		}
	}
}
