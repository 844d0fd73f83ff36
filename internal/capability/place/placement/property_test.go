package placement_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// same compares occupancies, including their unexported fields.
var same = cmp.Comparer(func(a, b placement.Occupancy) bool {
	return fmt.Sprintf("%+v", a) == fmt.Sprintf("%+v", b)
})

// bound is a pod on the node with its annotation.
type bound struct {
	pod        workload.Pinning
	annotation string
}

// drawPod returns a pod with a random request for CPUs.
func drawPod(t *rapid.T, outer testing.TB) workload.Pinning {
	var containers []workload.Container
	for i := range rapid.IntRange(1, 3).Draw(t, "containers") {
		n := rapid.Int64Range(1, 4).Draw(t, "CPUs")
		c := app(string(rune('a'+i)), n)
		c.CPURequest = min(c.CPURequest, rapid.SampledFrom([]int64{100, 1000, 1500, 4000}).Draw(t, "request"))
		c.MemoryLimit = rapid.SampledFrom([]int64{0, gi, 3 * gi, 7 * gi}).Draw(t, "memory")
		c.MemoryRequest = c.MemoryLimit
		c.Huge.Put(gi, rapid.SampledFrom([]int64{0, 0, gi, 2 * gi, 3 * gi}).Draw(t, "huge pages"))
		containers = append(containers, c)
	}
	pick := func(name string, values ...string) string { return rapid.SampledFrom(values).Draw(t, name) }
	annotations := []string{
		resourceSpec, fmt.Sprintf(`{"%sCPUBindPolicy":"%s","%sCPUExclusivePolicy":"%s"}`,
			pick("bind", "required", "preferred"), pick("bind policy", "Default", "FullPCPUs", "SpreadByPCPUs"),
			pick("exclusive", "required", "preferred"), pick("exclusive policy", "None", "None", "PCPULevel", "NUMANodeLevel")),
		"scheduling.koordinator.sh/numa-topology-spec", fmt.Sprintf(`{"numaTopologyPolicy":"%s","singleNUMANodeExclusive":"%s"}`,
			pick("NUMA", "", "BestEffort", "Restricted", "SingleNUMANode"), pick("NUMA exclusive", "", "", "Preferred", "Required")),
	}
	gpus := rapid.SampledFrom([]int64{0, 0, 1, 2, 4}).Draw(t, "GPUs")
	if rapid.Bool().Draw(t, "static-burst") {
		annotations = append(annotations, "cpu-policy", "static-burst")
	}
	p := pinning(outer, containers, annotations...)
	if gpus > 0 {
		p.Besides.Devices = []workload.Device{{Resource: gpu, Count: gpus}}
	}
	for _, c := range containers {
		p.Besides.ScheduledMemory += c.MemoryRequest
		p.Besides.ScheduledHuge.Add(c.Huge, 1)
	}
	if rapid.IntRange(0, 4).Draw(t, "per pod") == 0 {
		p.PerPod = true
		for i := range p.Pinned {
			p.Pinned[i].CPUs = p.Pinned[0].CPUs
		}
	}
	return p
}

func occupancy(m *alloc.Machine, pods []bound) placement.Occupancy {
	var o placement.Occupancy
	for _, b := range pods {
		h := placement.HeldBy(m, b.pod, b.annotation)
		o.Add(m, &h)
	}
	return o
}

// TestLife adds and removes random pods and checks the invariants after every step. A decision is deterministic, the
// annotation says what was decided, and no CPU is given out twice. The accounting rule is kept, and the shared pool has
// a core. An occupancy depends only on the present pods.
func TestLife(t *testing.T) {
	shapes := []shape{
		{nodes: 2, l3: 2, cores: 2, threads: 2, memory: 12 * gi, huge: 4, gpus: 2, reserved: "0"},
		{nodes: 1, l3: 1, cores: 8, threads: 1, memory: 8 * gi},
		{nodes: 4, l3: 1, cores: 2, threads: 2, memory: 14 * gi, huge: 6, gpus: 1, isolated: "3"},
	}
	var nodes []placement.Node
	for _, s := range shapes {
		nodes = append(nodes, s.node(t))
	}
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.SampledFrom(nodes).Draw(rt, "node")
		n.Policy.Strategy = rapid.SampledFrom(append(v1alpha1.NUMAAllocateStrategies(), "")).Draw(rt, "strategy")
		var pods []bound
		var scratch alloc.Scratch
		for range rapid.IntRange(1, 12).Draw(rt, "steps") {
			if len(pods) > 0 && rapid.IntRange(0, 2).Draw(rt, "goes") == 0 {
				i := rapid.IntRange(0, len(pods)-1).Draw(rt, "who")
				n.RequestedMilli -= pods[i].pod.Scheduled
				n.RequestedMemory -= pods[i].pod.Besides.ScheduledMemory
				n.RequestedHuge.Add(pods[i].pod.Besides.ScheduledHuge, -1)
				n.RequestedDevices[1] -= placement.CountDevices(n.Machine.Topology(), pods[i].pod.Besides.Devices)[1]
				pods = slices.Delete(pods, i, i+1)
				continue
			}
			p, o := drawPod(rt, t), occupancy(n.Machine, pods)
			before := o.Clone()
			ask := placement.AskOf(p)
			d, refusal := placement.Decide(&scratch, n, &o, &ask)
			again, refusedAgain := placement.Decide(&alloc.Scratch{}, n, &before, &ask)
			if refusal != refusedAgain || refusal.OK() && !cmp.Equal(d.Annotation(&ask, hash), again.Annotation(&ask, hash)) {
				rt.Fatalf("decided differently: %v, %v", refusal, refusedAgain)
			}
			if !cmp.Equal(o, before, same) {
				rt.Fatal("deciding changed the occupancy")
			}
			if !refusal.OK() {
				checkRefusal(rt, refusal)
				continue
			}
			b := bound{p, d.Annotation(&ask, hash).Encode()}
			decided, written := d.Held(&ask), placement.HeldBy(n.Machine, p, b.annotation)
			if a, b := fmt.Sprintf("%+v", decided), fmt.Sprintf("%+v", written); a != b {
				rt.Fatalf("decided %s\nwritten %s", a, b)
			}
			if d.Answer.CPUs.Intersects(o.Taken.CPUs()) || written.CPUs() != d.Answer.CPUs || written.Unknown() != 0 {
				rt.Fatalf("%s on %s", d.Answer.CPUs, o.Taken.CPUs())
			}
			pods = append(pods, b)
			n.RequestedMilli += p.Scheduled
			n.RequestedMemory += p.Besides.ScheduledMemory
			n.RequestedHuge.Add(p.Besides.ScheduledHuge, 1)
			n.RequestedDevices[1] += placement.CountDevices(n.Machine.Topology(), p.Besides.Devices)[1]
			checkNode(rt, n, pods)
		}
	})
}

func checkRefusal(t *rapid.T, r placement.Refusal) {
	if r.String() == "" || r.Detail() == "" || strings.Contains(r.String(), "%!") || strings.Contains(r.Detail(), "%!") {
		t.Fatalf("a refusal that says nothing: %+v", r)
	}
}

// checkNode counts the CPUs of a node's pods. Except for the parser of CPU lists, it uses none of the tested code.
func checkNode(t *rapid.T, n placement.Node, pods []bound) {
	o := occupancy(n.Machine, pods)
	if !o.Overlaps.IsEmpty() || o.Clash || o.Unknown != 0 || n.Surplus(&o) < 0 {
		t.Fatalf("overlaps %s, clash %t, unknown %d, surplus %d", o.Overlaps, o.Clash, o.Unknown, n.Surplus(&o))
	}
	top := n.Machine.Topology()
	rest := top.Online.Difference(top.Reserved).Difference(top.Isolated).Difference(o.Taken.CPUs())
	whole := false
	for _, core := range top.Cores {
		whole = whole || core.CPUs.IsSubsetOf(rest)
	}
	if !whole {
		t.Fatalf("the shared pool is %q", rest)
	}
	sum := int64(0)
	var all cpuset.Set
	for _, b := range pods {
		h := placement.HeldBy(n.Machine, b.pod, b.annotation)
		if all.Intersects(h.CPUs()) {
			t.Fatalf("%s twice", all.Intersect(h.CPUs()))
		}
		all = all.Union(h.CPUs())
		sum += max(int64(h.CPUs().Size())*1000, b.pod.Scheduled)
	}
	if limit := min(n.AllocatableMilli, int64(n.Machine.Pinnable().Size())*1000); sum > limit {
		t.Fatalf("%d thousandths promised of %d", sum, limit)
	}
	checkMemory(t, n, pods)
	backward := slices.Clone(pods)
	slices.Reverse(backward)
	if got := occupancy(n.Machine, backward); !cmp.Equal(got, o, same) {
		t.Fatalf("order matters:\n%+v\n%+v", o, got)
	}
}

// checkMemory adds up what is bound within every set of NUMA nodes. No byte of a set may be promised twice, neither in
// pages of 1 GiB nor in others.
func checkMemory(t *rapid.T, n placement.Node, pods []bound) {
	top := n.Machine.Topology()
	for within := 1; within < 1<<len(top.Nodes); within++ {
		memory, huge := int64(0), int64(0)
		for i, node := range top.Nodes {
			if within>>i&1 != 0 {
				huge += node.HugePageBytes
				memory += node.MemoryBytes - node.HugePageBytes
			}
		}
		for _, b := range pods {
			placed, _ := v1alpha1.DecodePlacement(b.annotation)
			for i, c := range b.pod.Pinned {
				if !inside(placed.Containers[c.Name].Mems, within, len(top.Nodes)) || b.pod.PerPod && i > 0 {
					continue
				}
				if b.pod.PerPod {
					memory, huge = memory-b.pod.Besides.ScheduledMemory, huge-b.pod.Besides.ScheduledHuge.Of(gi)
				} else {
					memory, huge = memory-c.Memory, huge-c.Huge.Of(gi)
				}
			}
		}
		if memory < 0 || huge < 0 {
			t.Fatalf("NUMA nodes %b: %d bytes of memory and %d of huge pages are left", within, memory, huge)
		}
	}
}

// inside reports whether a list of memory nodes is a real restriction and lies within a set.
func inside(mems string, within, all int) bool {
	nodes, err := cpuset.Parse(mems)
	if err != nil || nodes.Size() == all {
		return false
	}
	for node := range nodes.All() {
		if within>>node&1 == 0 {
			return false
		}
	}
	return true
}

// TestDecidedIsNotOverbound: Bind accepts everything that Decide allowed, beside any other pods, if nothing else came
// in between. That holds for a single pod and for earlier pods that are still being bound. As in Confirm, the CPUs are
// arbitrary.
func TestDecidedIsNotOverbound(t *testing.T) {
	n := shape{nodes: 3, l3: 1, cores: 6, threads: 1, memory: 12 * gi, huge: 2}.node(t)
	rapid.Check(t, func(rt *rapid.T) {
		var o placement.Occupancy
		for range rapid.IntRange(0, 2).Draw(rt, "others") {
			p := one(t, 2)
			p.Pinned[0].Memory = rapid.Int64Range(1, 14).Draw(rt, "memory of another") * gi
			mems := rapid.SampledFrom([]string{"0", "0-1", "1-2", "2"}).Draw(rt, "mems")
			h := placement.HeldBy(n.Machine, p, written(rapid.SampledFrom([]string{"0-1", "6-7", "12-13"}).Draw(rt, "CPUs"), mems))
			o.Add(n.Machine, &h)
		}
		var flying []placement.Held
		for range rapid.IntRange(1, 4).Draw(rt, "pods") {
			var containers []workload.Container
			for i := range rapid.IntRange(1, 3).Draw(rt, "containers") {
				c := app(string(rune('a'+i)), rapid.Int64Range(1, 3).Draw(rt, "CPUs"))
				c.MemoryLimit = rapid.Int64Range(0, 14).Draw(rt, "memory") * gi
				c.Huge.Put(gi, rapid.Int64Range(0, 3).Draw(rt, "huge pages")*gi)
				containers = append(containers, c)
			}
			ask := placement.AskOf(pinning(t, containers))
			free := rapid.Permutation(slices.Collect(n.Machine.Pinnable().Difference(o.Taken.CPUs()).All())).Draw(rt, "CPUs")
			each := make([]cpuset.Set, len(ask.Request.Wants))
			for i, want := range ask.Request.Wants {
				most := min(want.CPUs, len(free))
				each[i], _ = cpuset.Of(free[:most]...)
				free = free[most:]
			}
			d, refusal := placement.Confirm(new(alloc.Scratch), n, &o, &ask, each)
			if !refusal.OK() {
				continue
			}
			flying = append(flying, d.Held(&ask))
			o.Add(n.Machine, &flying[len(flying)-1])
			for i := range flying {
				if o.Overbound(n.Machine, &flying[i]) {
					rt.Fatalf("pod %d of %d: %+v binds too much: %+v", i, len(flying), flying[i], o)
				}
			}
		}
	})
}

// TestOccupancyOfAnything: an occupancy does not depend on the order of its pods, even with missing or forged
// annotations. CPUs and nodes that the machine does not have are ignored.
func TestOccupancyOfAnything(t *testing.T) {
	m := shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 8 * gi, reserved: "0,8"}.machine(t)
	rapid.Check(t, func(rt *rapid.T) {
		var pods []bound
		for range rapid.IntRange(0, 6).Draw(rt, "pods") {
			list := rapid.SampledFrom([]string{"1-2", "2-3", "1,9", "0-1", "5", "40-41", "4-7,12-15", ""}).Draw(rt, "CPUs")
			b := bound{one(t, rapid.Int64Range(1, 3).Draw(rt, "count")), written(list, rapid.SampledFrom([]string{"0", "1", "0-1", "7", ""}).Draw(rt, "mems"))}
			b.pod.Change.Changed = rapid.Bool().Draw(rt, "changed")
			if rapid.IntRange(0, 3).Draw(rt, "torn") == 0 {
				b.annotation = b.annotation[:len(b.annotation)/2]
			}
			pods = append(pods, b)
		}
		o := occupancy(m, pods)
		if !o.Taken.CPUs().IsSubsetOf(m.Pinnable()) || !o.Overlaps.IsSubsetOf(o.Taken.CPUs()) || o.ExtraMilli < 0 {
			rt.Fatalf("%+v", o)
		}
		shuffled := rapid.Permutation(pods).Draw(rt, "order")
		if got := occupancy(m, shuffled); !cmp.Equal(got, o, same) {
			rt.Fatalf("order matters:\n%+v\n%+v", o, got)
		}
	})
}

// TestShape: the shape ignores names and nothing else.
func TestShape(t *testing.T) {
	base := func() []workload.Container { return []workload.Container{app("a", 4), app("b", 2)} }
	shapeOf := func(p workload.Pinning) string {
		a := placement.AskOf(p)
		return a.Shape
	}
	want := shapeOf(pinning(t, base()))
	renamed := base()
	renamed[0].Name, renamed[1].Name = "y", "x"
	if got := shapeOf(pinning(t, renamed)); got != want {
		t.Errorf("names matter: %q, %q", want, got)
	}
	seen := map[string]string{want: "base"}
	for name, p := range map[string]workload.Pinning{
		"count":          pinning(t, []workload.Container{app("a", 4), app("b", 3)}),
		"one container":  pinning(t, []workload.Container{app("a", 6)}),
		"request":        pinning(t, []workload.Container{{Name: "a", Resources: workload.Resources{CPULimit: 4000, CPURequest: 3000}}, app("b", 2)}),
		"shared request": pinning(t, append(base(), workload.Container{Name: "c", Resources: workload.Resources{CPURequest: 500}})),
		"memory":         pinning(t, []workload.Container{{Name: "a", Resources: workload.Resources{CPULimit: 4000, CPURequest: 4000, MemoryLimit: 1}}, app("b", 2)}),
		"static-burst":   pinning(t, base(), "cpu-policy", "static-burst"),
		"bind":           pinning(t, base(), resourceSpec, `{"preferredCPUBindPolicy":"SpreadByPCPUs"}`),
		"bind required":  pinning(t, base(), resourceSpec, `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`),
		"exclusive":      pinning(t, base(), resourceSpec, `{"preferredCPUExclusivePolicy":"PCPULevel"}`),
		"NUMA said":      pinning(t, base(), "scheduling.koordinator.sh/numa-topology-spec", `{"numaTopologyPolicy":"BestEffort"}`),
		"NUMA":           pinning(t, base(), "scheduling.koordinator.sh/numa-topology-spec", `{"numaTopologyPolicy":"Restricted"}`),
		"NUMA exclusive": pinning(t, base(), "scheduling.koordinator.sh/numa-topology-spec", `{"singleNUMANodeExclusive":"Required"}`),
	} {
		got := shapeOf(p)
		if other, found := seen[got]; found {
			t.Errorf("%s and %s have the shape %q", name, other, got)
		}
		seen[got] = name
	}
}
