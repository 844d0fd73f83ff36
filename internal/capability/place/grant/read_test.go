package grant_test

import (
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/berth-project/berth/api/v1alpha1"
	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/grant"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/linux/topology"
	"github.com/berth-project/berth/internal/value/cpuset"
	_ "github.com/berth-project/berth/test/chance" // fixes the cases of the properties
)

const gi = 1 << 30

// machine has two NUMA nodes of four cores of two threads: 0-3,8-11 and 4-7,12-15. CPUs 0 and 8 are reserved.
func machine(t testing.TB) *alloc.Machine {
	t.Helper()
	top := &topology.Topology{Online: set(t, "0-15"), Reserved: set(t, "0,8")}
	for i := range 8 {
		top.Cores = append(top.Cores, topology.Core{
			ID: topology.CoreID(i), CPUs: set(t, fmt.Sprintf("%d,%d", i, i+8)),
			Socket: topology.SocketID(i / 4), Node: topology.NodeID(i / 4), L3: topology.L3ID(i / 4),
		})
	}
	for i, list := range []string{"0-3,8-11", "4-7,12-15"} {
		top.L3 = append(top.L3, topology.L3{ID: topology.L3ID(i), CPUs: set(t, list)})
		top.Sockets = append(top.Sockets, topology.Socket{ID: topology.SocketID(i), CPUs: set(t, list)})
		distances := []int{20, 20}
		distances[i] = 10
		top.Nodes = append(top.Nodes, topology.Node{ID: topology.NodeID(i), CPUs: set(t, list), MemoryBytes: 16 * gi, Distances: distances})
	}
	m, err := alloc.Compile(top)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func set(t testing.TB, list string) cpuset.Set {
	t.Helper()
	s, err := cpuset.Parse(list)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// pinning returns the request of a pod with containers a and b: of 2 CPUs and 1 CPU, or of 2 CPUs together. With other
// annotations, which are for static-burst, the limit of b is half a CPU.
func pinning(t testing.TB, together bool, annotations ...string) workload.Pinning {
	t.Helper()
	p := workload.Pod{
		Annotations: map[string]string{v1alpha1.AnnotationCPUSetScheduler: "true"}, Scheduled: 3000,
		Containers: []workload.Container{{Name: "a"}, {Name: "b"}},
	}
	if together {
		p.CPULimit = 2000
	} else {
		p.Containers[0].CPULimit, p.Containers[1].CPULimit = 2000, 1000
	}
	for i := 0; i < len(annotations); i += 2 {
		p.Annotations[annotations[i]] = annotations[i+1]
		if !together {
			p.Containers[1].CPULimit = 500
		}
	}
	pin, problems := workload.PinningOf(p)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return pin
}

// part is the part of an exclusive container.
func part(cpus, mems string) v1alpha1.ContainerPlacement {
	return v1alpha1.ContainerPlacement{CPUs: cpus, Mems: mems, Policy: v1alpha1.PlacementExclusive}
}

// burst is the part of a container with static-burst.
func burst(cpus, mems string) v1alpha1.ContainerPlacement {
	return v1alpha1.ContainerPlacement{CPUs: cpus, Mems: mems, Policy: v1alpha1.PlacementStaticBurst, Domain: "l3:0"}
}

type parts = map[string]v1alpha1.ContainerPlacement

func written(containers parts) string {
	return v1alpha1.Placement{V: 1, Topology: strings.Repeat("0", 16), Containers: containers}.Encode()
}

// both reads a placement in both ways: what the node follows, or why it does not, and what the scheduler counts.
func both(m *alloc.Machine, pin *workload.Pinning, text string) (grant.Grant, string, placement.Held) {
	placed, problems := v1alpha1.DecodePlacement(text)
	g, cause := grant.Read(m, pin, placed, problems)
	return g, cause, placement.HeldBy(m, *pin, text)
}

func TestRead(t *testing.T) {
	t.Parallel()
	m, each, together := machine(t), pinning(t, false), pinning(t, true)
	widens := pinning(t, false, v1alpha1.AnnotationCPUPolicy, v1alpha1.CPUPolicyStaticBurst)
	changed := each
	changed.Change.Changed = true
	for name, c := range map[string]struct {
		pin   workload.Pinning
		text  string
		cause string
		// held and unknown are what the scheduler counts.
		held    string
		unknown int
	}{
		"as asked":            {each, written(parts{"a": part("1,9", "0"), "b": part("4", "1")}), "", "1,4,9", 0},
		"together":            {together, written(parts{"a": part("1,9", "0"), "b": part("1,9", "0-1")}), "", "1,9", 0},
		"resized":             {changed, written(parts{"a": part("1-3", "0"), "b": part("4", "1")}), "", "1-4", 0},
		"and another":         {each, written(parts{"a": part("1,9", "0"), "b": part("4", "1"), "x": part("9", "0")}), "", "1,4,9", 0},
		"static-burst":        {widens, written(parts{"a": burst("1,9", "0"), "b": burst("2", "0")}), "", "1-2,9", 0},
		"lacks one":           {each, written(parts{"a": part("1,9", "0")}), "it lacks container b", "1,9", 1},
		"reserved":            {each, written(parts{"a": part("0,8", "0"), "b": part("4", "1")}), "container a: no pod may have CPUs 0,8 on this node", "4", 2},
		"too many":            {each, written(parts{"a": part("1-3", "0"), "b": part("4", "1")}), "container a: 3 CPUs for a limit of 2", "4", 2},
		"another policy":      {each, written(parts{"a": burst("1,9", "0"), "b": part("4", "1")}), "container a: policy static-burst, which the pod does not ask for", "1,4,9", 0},
		"the same CPU":        {each, written(parts{"a": part("1,9", "0"), "b": part("9", "0")}), "container b: CPUs 9 are another container's of the pod", "1,9", 1},
		"other nodes":         {each, written(parts{"a": part("3-4", "0"), "b": part("5", "1")}), "container a: CPUs 3-4 are in NUMA nodes 0-1, not in 0", "3-5", 0},
		"together, not":       {together, written(parts{"a": part("1,9", "0"), "b": part("2,10", "0")}), "container b: the containers share one set of CPUs, and this is another", "", 2},
		"together, as text":   {together, written(parts{"a": part("1-2", "0"), "b": part("1,2", "0")}), "it does not say what the pod asks for", "", 2},
		"a version to come":   {each, strings.Replace(written(parts{"a": part("1,9", "0")}), `"v":1`, `"v":2`, 1), "it cannot be read: field v: value 2: allowed: 1 to 1", "", 3},
		"no part of it valid": {each, written(parts{"a": part("0", "0"), "b": part("900", "0")}), "container a: no pod may have CPUs 0 on this node", "", 3},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, cause, held := both(m, &c.pin, c.text)
			if cause != c.cause {
				t.Errorf("cause %q, want %q", cause, c.cause)
			}
			if held.CPUs() != set(t, c.held) || held.Unknown() != c.unknown {
				t.Errorf("held %s and %d more, want %s and %d", held.CPUs(), held.Unknown(), c.held, c.unknown)
			}
		})
	}
	if g, cause := grant.Read(m, &each, v1alpha1.Placement{}, nil); g.Parts != nil || cause != "" {
		t.Errorf("without a placement: %v, %q", g.Parts, cause)
	}
}

// TestReadAgrees checks that the scheduler counts exactly the CPUs of each placement that the node follows.
func TestReadAgrees(t *testing.T) {
	t.Parallel()
	m := machine(t)
	followed := 0
	rapid.Check(t, func(rt *rapid.T) {
		pin, partOf := pinning(t, rapid.Bool().Draw(rt, "together")), part
		if rapid.Bool().Draw(rt, "static-burst") {
			pin, partOf = pinning(t, pin.PerPod, v1alpha1.AnnotationCPUPolicy, v1alpha1.CPUPolicyStaticBurst), burst
		}
		pin.Change.Changed = rapid.Bool().Draw(rt, "changed")
		lists, containers := rapid.SampledFrom([]string{"1,9", "9,1", "2", "2,10", "0-1", "4-5", "5"}), parts{}
		for _, name := range []string{"a", "b", "x"} {
			if c := partOf(lists.Draw(rt, name), "0-1"); c.CPUs != "5" || name != "x" {
				containers[name] = c
			}
		}
		g, cause, held := both(m, &pin, written(containers))
		if cause != "" {
			return
		}
		followed++
		if held.CPUs() != g.Own() || held.Unknown() != 0 {
			rt.Fatalf("%v: the node follows %s, the scheduler counts %s and %d more", containers, g.List(), held.CPUs(), held.Unknown())
		}
	})
	if followed == 0 {
		t.Error("no placement was followed")
	}
}
