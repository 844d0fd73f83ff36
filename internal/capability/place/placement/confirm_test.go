package placement_test

import (
	"strings"
	"testing"

	"github.com/berth-project/berth/internal/capability/place/alloc"
	"github.com/berth-project/berth/internal/capability/place/placement"
	"github.com/berth-project/berth/internal/intent/workload"
	"github.com/berth-project/berth/internal/value/cpuset"
)

// TestConfirm uses two NUMA nodes of four cores of two threads, where n+8 is the sibling of n.
func TestConfirm(t *testing.T) {
	const spec, numa = "scheduling.koordinator.sh/resource-spec", "scheduling.koordinator.sh/numa-topology-spec"
	tests := []struct {
		name        string
		annotations []string
		taken       string
		each        []string
		says        string // the refusal, or what was granted
	}{
		{"any CPUs", nil, "", []string{"0,3"}, "0,3"},
		{"too few", nil, "", []string{"0"}, "no CPUs asked for"},
		{"another pod's", nil, "3", []string{"0,3"}, "fewer than 2 free CPUs: there are 1"},
		{"whole core", []string{spec, `{"requiredCPUBindPolicy":"FullPCPUs"}`}, "", []string{"0,8"}, "0,8"},
		{"halves", []string{spec, `{"requiredCPUBindPolicy":"FullPCPUs"}`}, "", []string{"0,1"}, "fewer than 1 free cores"},
		{"two cores", []string{spec, `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`}, "", []string{"0,1"}, "0-1"},
		{"one core", []string{spec, `{"requiredCPUBindPolicy":"SpreadByPCPUs"}`}, "", []string{"0,8"}, "fewer than 2 cores with a free CPU"},
		{"two nodes", []string{numa, `{"numaTopologyPolicy":"SingleNUMANode"}`}, "", []string{"0,4"}, "fewer than 2 free CPUs in one NUMA node"},
		{"siblings free", []string{spec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`}, "", []string{"0,1"}, "0-1 alone on 0-1,8-9"},
		{"sibling taken", []string{spec, `{"requiredCPUExclusivePolicy":"PCPULevel"}`}, "9", []string{"0,1"}, "fewer than 2 CPUs on cores without another pod"},
		{"sibling taken, preferred", []string{spec, `{"preferredCPUExclusivePolicy":"PCPULevel"}`}, "9", []string{"0,1"}, "0-1"},
		{"last core", nil, "2-7,10-15", []string{"0,1"}, "no whole core left for the shared pool"},
		{"one core stays", nil, "2-7,10-15", []string{"1,9"}, "1,9"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			n := shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 64 * gi}.node(t)
			var o placement.Occupancy
			if test.taken != "" {
				give(&o, n.Machine, one(t, int64(set(t, test.taken).Size())), written(test.taken, "0-1"))
			}
			a := placement.AskOf(one(t, 2, test.annotations...))
			var each []cpuset.Set
			for _, list := range test.each {
				each = append(each, set(t, list))
			}
			d, refusal := placement.Confirm(&alloc.Scratch{}, n, &o, &a, each)
			got := refusal.Detail()
			if refusal.OK() {
				got = d.Answer.Each[0].String()
				if d.Answer.Exclusive == alloc.PCPULevel {
					got += " alone on " + d.Answer.Occupied.String()
				}
				held := d.Held(&a)
				if read := placement.HeldBy(n.Machine, a.Pod, encoded(&d, &a)); read.CPUs() != held.CPUs() {
					t.Errorf("the annotation gives %s, not %s", read.CPUs(), held.CPUs())
				}
			}
			if !strings.HasPrefix(got, test.says) {
				t.Errorf("got %q, want %q", got, test.says)
			}
		})
	}
}

func encoded(d *placement.Decision, a *placement.Ask) string {
	p := d.Annotation(a, hash)
	return p.Encode()
}

// TestConfirmEach: each container keeps its CPUs, even if Decide would choose others.
func TestConfirmEach(t *testing.T) {
	n := shape{nodes: 2, l3: 1, cores: 4, threads: 2, memory: 64 * gi}.node(t)
	p := pinning(t, []workload.Container{app("a", 2), app("b", 1)})
	a := placement.AskOf(p)
	var o placement.Occupancy
	d, refusal := placement.Confirm(&alloc.Scratch{}, n, &o, &a, []cpuset.Set{set(t, "1,12"), set(t, "9")})
	if !refusal.OK() {
		t.Fatal(refusal.Detail())
	}
	w := d.Annotation(&a, hash)
	if w.Containers["a"].CPUs != "1,12" || w.Containers["b"].CPUs != "9" {
		t.Errorf("placement %+v", w.Containers)
	}
	if _, refusal = placement.Confirm(&alloc.Scratch{}, n, &o, &a, []cpuset.Set{set(t, "1,9"), set(t, "9")}); refusal.OK() {
		t.Error("two containers may have one CPU")
	}
	whole := pinning(t, []workload.Container{app("a", 2), app("b", 2)}, "scheduling.koordinator.sh/resource-spec", `{"requiredCPUBindPolicy":"FullPCPUs"}`)
	a = placement.AskOf(whole)
	if _, refusal = placement.Confirm(&alloc.Scratch{}, n, &o, &a, []cpuset.Set{set(t, "0,1"), set(t, "8,9")}); refusal.OK() {
		t.Error("containers that require whole cores may have halves of the same ones")
	}
}

// TestWorseWithoutMemory: a pod is worse off in the NUMA node of which another pod has the memory, and not worse off
// elsewhere in its own.
func TestWorseWithoutMemory(t *testing.T) {
	n, o := shape{nodes: 2, l3: 1, cores: 8, threads: 1, memory: 64 * gi}.node(t), placement.Occupancy{}
	give(&o, n.Machine, memoryPod(t, 50, 0), written("8-9", "1"))
	n.RequestedMemory = 50 * gi
	ask := placement.AskOf(memoryPod(t, 20, 0))
	on := func(cpus string) *placement.Decision {
		d, no := placement.ConfirmTogether(new(alloc.Scratch), n, &o, &ask, set(t, cpus))
		if !no.OK() {
			t.Fatal(no.Detail())
		}
		return &d
	}
	was := on("0-1")
	if on("2-3").WorseThan(was, &ask) || !on("10-11").WorseThan(was, &ask) {
		t.Errorf("in the same node %t, in the other %t", on("2-3").WorseThan(was, &ask), on("10-11").WorseThan(was, &ask))
	}
}
